/*
 * supervisor/tokens.h - the token file: who may connect by http. Part of
 * supervisor.h, included by it alone.
 */
#ifndef BAILEY_TOKENS_H
#define BAILEY_TOKENS_H

/* ---- tokens.c ---- */
struct token {
	char principal[65];
	uint8_t hash[32]; /* SHA-256 of the token */
};
struct tokens {
	struct token row[TOKENS_MAX];
	uint32_t n;
};
/* Reads a file only its owner can read: root's or the caller's. -errno: error holds one line that
 * says what is wrong with which line of it, and what to do. */
int tokens_load(const char *path, struct tokens *ret, char *error, size_t cap);
int tokens_send(struct link *l, const struct tokens *t); /* to a broker */
/* Reads the file again, as whoever started the tree, and tells the broker. A file that is not
 * good changes nothing. */
struct tree;
void tokens_reread(struct tree *t);

#endif
