//! Restart operations: request, approval, drain, checkpoint, stop, start, verify, resume.
