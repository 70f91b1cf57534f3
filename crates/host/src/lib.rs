//! What this machine says: the boot-time clock, process identities, proof of death, random ids.
