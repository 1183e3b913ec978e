/*
 * guest/images.c - the images an evaluation has left where they are looked for.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: a directory of untrusted code: any names, any number, anything in its place.
 * Owns: nothing.
 *
 * By name and time only: whoever reads the file looks at what it is. The kernel
 * stamps files with its coarse clock, so that is the one to compare with.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define IMAGES_MAX 32u
#define IMAGES_LOOKED_AT 1024u /* entries of the directory */
#define IMAGES_NAME_MAX 256u

static const char *const images_endings[] = {".png", ".jpg", ".jpeg", ".gif", ".webp"};

static bool
images_is_name(const char *name)
{
	size_t len = strlen(name);

	if (len >= IMAGES_NAME_MAX)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(images_endings); i++) {
		size_t n = strlen(images_endings[i]);

		if (len > n && strcasecmp(name + len - n, images_endings[i]) == 0)
			return true;
	}
	return false;
}

static bool
images_is_new(int dir_fd, const char *name, const struct timespec *since)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1 || !S_ISREG(st.st_mode))
		return false;
	return st.st_mtim.tv_sec != since->tv_sec ? st.st_mtim.tv_sec > since->tv_sec
						  : st.st_mtim.tv_nsec >= since->tv_nsec;
}

static int
images_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

void
images_put(struct output *value, const char *path, const struct timespec *since)
{
	static char names[IMAGES_MAX][IMAGES_NAME_MAX];
	char record[512];
	struct dirent *d;
	size_t n = 0;
	DIR *dir;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd == -1)
		return; /* mostly there is none */
	dir = fdopendir(fd);
	if (dir == NULL) {
		(void)close(fd);
		return;
	}
	for (size_t i = 0; i < IMAGES_LOOKED_AT && n < IMAGES_MAX; i++) {
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
		d = readdir(dir);
		if (d == NULL)
			break;
		if (images_is_name(d->d_name) && images_is_new(fd, d->d_name, since))
			(void)snprintf(names[n++], sizeof(names[0]), "%s", d->d_name);
	}
	(void)closedir(dir);
	qsort(names, n, sizeof(names[0]), images_compare);
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(record, sizeof(record), "i%s/%.255s", path, names[i]);

		if (len > 0 && (size_t)len < sizeof(record))
			output_put(value, (const uint8_t *)record, (size_t)len + 1);
	}
}
