"""Upper layers above RDMAP: the protocol, its headers and Private Data, and the STags it names."""
