//! A store that `unstarve fleet compact` keeps: each row once.
