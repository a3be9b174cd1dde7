from scapy_mpa.receive.segment import Segment

def pcap(
    octets: memoryview,
    at: int,
    frame: int,
    batch: list[Segment],
    header: int,
    ether_type_at: int,
    is_big: bool,
    resolution: int,
    /,
) -> tuple[int, int]: ...
def enhanced(
    octets: memoryview,
    at: int,
    frame: int,
    batch: list[Segment],
    header: int,
    ether_type_at: int,
    is_big: bool,
    interface: int,
    simple_high: int,
    factor: int,
    /,
) -> tuple[int, int]: ...
