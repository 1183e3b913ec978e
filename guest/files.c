/*
 * guest/files.c - reads, writes and lists files for the host, in pieces between polls.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: a path of the caller's; files, directories and links that untrusted code makes and
 *        changes meanwhile.
 * Owns: struct files of each run of a file kind, its descriptors.
 *
 * A path is beneath /workspace or, when it says so, /tmp (beneath.c). Only a regular file is read
 * or written: what may block or act is opened without waiting and then refused. Of a directory each
 * entry is "TYPE MODE SIZE MTIME PATH" and a NUL: f d l o, octal mode, bytes, seconds, the path
 * below the directory asked for. Links are not followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define FILES_PATH_MAX 4096u
#define FILES_DEPTH_MAX 32u
#define FILES_ENTRIES_MAX 10000u
#define FILES_PIECE \
	((size_t)2 * GUEST_PIECE) /* read at once; listed before the rest waits for credit */
#define FILES_LIST_STEP 256u      /* entries looked at before the loop looks at the host */
#define FILES_LIST_PATH_MAX 8192u
#define FILES_OPEN_FLAGS (O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct files {
	int fd;           /* of a read or write */
	uint64_t at, end; /* next byte; a read stops here */
	uint64_t written;
	/* of a list: the directories being read, the deepest last */
	DIR *dirs[FILES_DEPTH_MAX];
	size_t path_len[FILES_DEPTH_MAX]; /* of each one's own path, with its slash */
	uint32_t depth, max_depth, entries;
	char path[FILES_LIST_PATH_MAX];
};

static int
files_check(int fd, struct stat *ret)
{
	if (fstat(fd, ret) == -1)
		return -errno;
	if (S_ISDIR(ret->st_mode))
		return -EISDIR;
	return S_ISREG(ret->st_mode) ? 0 : -EINVAL;
}

/* ---- end ---- */

static void
files_close(struct run *run)
{
	struct files *f = run->files;

	if (f == NULL)
		return;
	while (f->depth > 0)
		(void)closedir(f->dirs[--f->depth]);
	if (f->fd >= 0)
		(void)close(f->fd); /* a tmpfs reports what is full at write, not here */
	free(TAKE(run->files));
}

void
files_end(struct guest *g, struct run *run, int err)
{
	struct files *f = run->files;
	struct guest_g_exit *x = &run->result;
	struct stat st;

	x->how = EXIT_EXITED;
	x->exit_code = (uint32_t)err;
	x->start = START_LIVE;
	x->wall_us = clock_now_us() - run->started_us;
	if (f != NULL && run->what.kind == RUN_FILE_LIST)
		x->size = f->entries;
	else if (f != NULL && f->fd >= 0 && fstat(f->fd, &st) == 0)
		x->size = (uint64_t)st.st_size;
	if (f != NULL && run->what.kind == RUN_FILE_WRITE)
		x->stdout_bytes = f->written;
	files_close(run);
	run->ended = true;
	run_drain(g, run);
}

/* ---- read ---- */

static int
files_begin_read(struct run *run, int root, const char *rest)
{
	struct files *f = run->files;
	struct stat st;
	int r;

	f->fd = beneath_open(root, rest, O_RDONLY | FILES_OPEN_FLAGS, 0);
	if (f->fd == -ENXIO)
		return -EINVAL; /* a socket */
	if (f->fd < 0)
		return f->fd;
	r = files_check(f->fd, &st);
	if (r < 0)
		return r;
	f->at = run->what.offset;
	f->end = (uint64_t)st.st_size;
	if (run->what.length > 0 && f->at < f->end && run->what.length < f->end - f->at)
		f->end = f->at + run->what.length;
	run->out[0].head_max = UINT64_MAX; /* all of it, as credit comes */
	return 0;
}

static void
files_step_read(struct guest *g, struct run *run)
{
	struct files *f = run->files;
	struct output *o = &run->out[0];
	uint64_t left = f->end > f->at ? f->end - f->at : 0;
	size_t want = left < FILES_PIECE ? (size_t)left : FILES_PIECE;
	uint8_t *room;
	ssize_t n = 0;

	if (buf_reserve(&o->pending, FILES_PIECE, &room) < 0) {
		files_end(g, run, ENOMEM);
		return;
	}
	if (want > 0)
		n = pread(f->fd, room, want, (off_t)f->at);
	if (n == -1 && errno == EINTR)
		return;
	if (n > 0) {
		buf_commit(&o->pending, (size_t)n);
		o->total += (uint64_t)n;
		f->at += (uint64_t)n;
	}
	if (n <= 0 || f->at == f->end)
		files_end(g, run, n < 0 ? errno : 0);
}

/* ---- write ---- */

static int
files_begin_write(struct run *run, int root, const char *rest)
{
	struct files *f = run->files;
	uint32_t flags = run->what.flags;
	struct stat st;
	int r;

	f->fd = beneath_open(root, rest, O_WRONLY | FILES_OPEN_FLAGS, 0);
	if (f->fd == -ENOENT)
		f->fd = beneath_create(root, rest, FILES_OPEN_FLAGS,
				       run->what.mode == 0 ? 0644 : run->what.mode);
	if (f->fd == -ENXIO)
		return -EINVAL; /* a pipe nobody reads, or a socket */
	if (f->fd < 0)
		return f->fd;
	r = files_check(f->fd, &st);
	if (r == 0 && (flags & SPEC_TRUNCATE) != 0 && ftruncate(f->fd, 0) == -1)
		r = -errno;
	f->at = run->what.offset;
	if (r == 0 && (flags & SPEC_APPEND) != 0)
		f->at = (flags & SPEC_TRUNCATE) != 0 ? 0 : (uint64_t)st.st_size;
	return r;
}

void
files_take(struct guest *g, struct run *run, const uint8_t *p, size_t n)
{
	struct files *f = run->files;
	size_t done = 0;

	while (done < n) {
		ssize_t part = pwrite(f->fd, p + done, n - done, (off_t)f->at);

		if (part == -1 && errno == EINTR)
			continue;
		if (part <= 0) {
			files_end(g, run, part == 0 ? EIO : errno);
			return;
		}
		done += (size_t)part;
		f->at += (uint64_t)part;
		f->written += (uint64_t)part;
	}
	run->feed.consumed = run->feed.received;
	feed_grant(g, &run->feed);
}

/* ---- list ---- */

static int
files_push(struct files *f, int fd, size_t path_len)
{
	DIR *dir;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (dir == NULL) {
		int err = errno;

		(void)close(fd);
		return -err;
	}
	f->path_len[f->depth] = path_len;
	f->dirs[f->depth] = dir;
	f->depth++;
	return 0;
}

static int
files_begin_list(struct run *run, int root, const char *rest)
{
	struct files *f = run->files;
	uint64_t depth = run->what.length == 0 ? 1 : run->what.length;

	f->max_depth = depth > FILES_DEPTH_MAX ? FILES_DEPTH_MAX : (uint32_t)depth;
	run->out[0].head_max = UINT64_MAX;
	return files_push(f, beneath_open(root, rest, O_RDONLY | O_DIRECTORY | FILES_OPEN_FLAGS, 0),
			  0);
}

static char
files_type(mode_t mode)
{
	if (S_ISREG(mode))
		return 'f';
	if (S_ISDIR(mode))
		return 'd';
	return S_ISLNK(mode) ? 'l' : 'o';
}

/* One entry of the deepest directory; goes down into it when it is one itself. */
static int
files_entry(struct run *run, const char *name)
{
	struct files *f = run->files;
	int dir = dirfd(f->dirs[f->depth - 1]);
	size_t at = f->path_len[f->depth - 1];
	char text[FILES_LIST_PATH_MAX + 80];
	struct stat st;
	int n;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return 0; /* gone meanwhile */
	n = snprintf(f->path + at, sizeof(f->path) - at, "%s", name);
	if (n <= 0 || (size_t)n + 1 >= sizeof(f->path) - at)
		return ENAMETOOLONG;
	at += (size_t)n;
	n = snprintf(text, sizeof(text), "%c %o %" PRIu64 " %" PRId64 " %s", files_type(st.st_mode),
		     (unsigned)(st.st_mode & 07777), (uint64_t)st.st_size, (int64_t)st.st_mtime,
		     f->path);
	output_put(&run->out[0], (const uint8_t *)text, (size_t)n + 1);
	f->entries++;
	if (!S_ISDIR(st.st_mode) || f->depth >= f->max_depth)
		return 0;
	f->path[at++] = '/';
	f->path[at] = '\0';
	/* One that may not be read, or is gone meanwhile, is listed and no more. */
	(void)files_push(f,
			 openat(dir, name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | FILES_OPEN_FLAGS),
			 at);
	return 0;
}

static void
files_step_list(struct guest *g, struct run *run)
{
	struct files *f = run->files;
	int err = 0;

	for (unsigned i = 0; i < FILES_LIST_STEP && err == 0; i++) {
		const struct dirent *d;

		if (f->depth == 0 || f->entries >= FILES_ENTRIES_MAX) {
			files_end(g, run, 0);
			return;
		}
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
		d = readdir(f->dirs[f->depth - 1]);
		if (d == NULL)
			(void)closedir(f->dirs[--f->depth]);
		else if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			err = files_entry(run, d->d_name);
	}
	if (err != 0)
		files_end(g, run, err);
}

/* ---- what run.c calls ---- */

static int
files_begin(struct run *run)
{
	char path[FILES_PATH_MAX];
	const char *rest;
	int root;
	int r;

	if (str_copy(path, sizeof(path), (const char *)run->what.code.data, run->what.code.len) < 0)
		return -ENAMETOOLONG;
	root = beneath_root(path, &rest);
	if (root < 0)
		return root;
	if (run->what.kind == RUN_FILE_READ)
		r = files_begin_read(run, root, rest);
	else if (run->what.kind == RUN_FILE_WRITE)
		r = files_begin_write(run, root, rest);
	else
		r = files_begin_list(run, root, rest);
	(void)close(root);
	return r;
}

void
files_start(struct guest *g, struct run *run)
{
	int r;

	stream_widen(&g->stream);
	run->files = calloc(1, sizeof(*run->files));
	if (run->files == NULL) {
		files_end(g, run, ENOMEM);
		return;
	}
	run->files->fd = -1;
	r = files_begin(run);
	if (r < 0)
		files_end(g, run, -r);
	else if (run->what.kind == RUN_FILE_WRITE && run->feed.eof)
		files_end(g, run, 0);
	else
		files_step(g, run);
}

bool
files_may_step(const struct guest *g, const struct run *run)
{
	const struct output *o = &run->out[0];

	return run->files != NULL && run->what.kind != RUN_FILE_WRITE &&
	       buf_len(&o->pending) < FILES_PIECE && stream_has_room(&g->stream) &&
	       o->framed + buf_len(&o->pending) < o->credit;
}

void
files_step(struct guest *g, struct run *run)
{
	if (!files_may_step(g, run))
		return;
	if (run->what.kind == RUN_FILE_READ)
		files_step_read(g, run);
	else
		files_step_list(g, run);
}
