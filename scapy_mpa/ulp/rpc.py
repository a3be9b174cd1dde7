"""Names of RPC programs and procedures that run over RPC-over-RDMA (RFC 5531; NFS: RFC 1813, RFC 7530, RFC 8881)."""

from __future__ import annotations

NFS_PROGRAM, NFS_CALLBACK_PROGRAM = 100003, 0x40000000
#: Program, version and procedure of what NFS version 4 does everything with.
COMPOUND = NFS_PROGRAM, 4, 1
PROGRAMS = {
    100000: "rpcbind",
    NFS_PROGRAM: "NFS",
    100005: "mount",
    100021: "NLM",
    100227: "NFSACL",
    NFS_CALLBACK_PROGRAM: "NFS callback",
}
_NFS_3 = (
    *("NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK"),
    *("MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT"),
)
#: By program and version, in the order of their numbers.
_PROCEDURES = {
    (NFS_PROGRAM, 3): _NFS_3,
    (NFS_PROGRAM, 4): ("NULL", "COMPOUND"),
    (NFS_CALLBACK_PROGRAM, 1): ("CB_NULL", "CB_COMPOUND"),
    (100227, 3): ("NULL", "GETACL", "SETACL"),
    (100005, 3): ("NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"),
}


def call_name(program: int, version: int, procedure: int) -> str:
    """Return what a call asks for, such as "NFS 3 READ"; numbers where there is no name."""
    known = _PROCEDURES.get((program, version), ())
    # Procedure 0 of any program does nothing (RFC 5531 §12.1).
    named = known[procedure] if procedure < len(known) else f"procedure {procedure}" if procedure else "NULL"
    return f"{PROGRAMS.get(program, f'program {program}')} {version} {named}"
