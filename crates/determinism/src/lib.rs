//! Run a subject again and again from one seed, compare what it did, and say what broke it.
