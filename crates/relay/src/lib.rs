//! Requests in flight: who asked, was it written, who gets the answer. Pure.
