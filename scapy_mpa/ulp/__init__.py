"""What runs above RDMAP, in a word: which protocol, what its headers and its Private Data say, which STags it names."""
