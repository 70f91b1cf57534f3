//! Durable leases with fencing: acquire, renew, release, adopt, expire; a holder's death is proved, never assumed.
