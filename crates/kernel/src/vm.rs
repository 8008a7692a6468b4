//! Virtual machines with a kernel of their own.
