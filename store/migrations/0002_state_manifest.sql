-- What a state consists of, so that a section that was lost, renamed or swapped is noticed as a changed byte is.
ALTER TABLE state ADD COLUMN manifest BLOB;  -- SHA-256 (store/state_store.cpp); NULL in states older than this column
