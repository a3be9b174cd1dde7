/* Compiled into every hot module: the hash of what it was made from, which scapy_mpa/compiled.py reads in its file. */
#ifdef SCAPY_MPA_MADE_FROM
__attribute__((used)) static const char scapy_mpa_made_from[] = "scapy-mpa made from " SCAPY_MPA_MADE_FROM;
#endif
