/*
 * tests/live/engine_driver.c - drives the engine layer by words on its command
 * line, for tests against a real or a scripted engine.
 *
 * Runs in: tests.
 * Input: argv, from the test beside it.
 * Owns: one engine, at most one attach.
 *
 *   engine_driver unix,PATH | tcp,HOST,ADDRESS,PORT | tls,HOST,ADDRESS,PORT,CA,CERT,KEY WORD…
 *
 * Each word is one step, finished before the next begins, and prints one line
 * "step err status detail". Steps: probe, image=NAME, list=HASH, spec:KEY=VALUE,
 * id=HEX, create, check, attach, send=TEXT, flood=BYTES, expect=TEXT, closed,
 * start, update=MEMORY:MILLI, kill, remove, remove=NAME, events, event=KIND, gap,
 * sleep=MS, detach, begin=STEP (does not wait), free (and waits whether anybody
 * is still called). Where a step never ends: "step STUCK" and exit status 3.
 */
#include "engine.h"
#include "container_seccomp.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUCK_S 45
#define KEEP 65536u

static struct {
	struct event_base *base;
	struct engine *engine;
	struct attach *attach;
	struct box_spec spec;
	char id[72];
	const char *step;
	bool waiting, freed, closed, answered;
	int closed_err, gaps;
	struct buf out, err;
	uint64_t out_bytes;
	int events[4];
	uint64_t flood_left;
} d;

static void
say(int err, int status, const char *detail)
{
	printf("%s %d %d %s\n", d.step, err, status, detail != NULL ? detail : "");
	(void)fflush(stdout);
}

static void
finish(void)
{
	if (d.freed) {
		printf("free CALLED\n");
		(void)fflush(stdout);
		_exit(4);
	}
	d.waiting = false;
	(void)event_base_loopbreak(d.base);
}

static void
ended(const struct engine_result *r, const char *detail)
{
	say(r->err, r->http_status, r->err == 0 ? detail : r->message);
	d.answered = true;
	finish();
}

/* ---- callbacks ---- */

static void
on_probe(void *ctx, const struct engine_result *r, const struct engine_info *i)
{
	char text[600] = "";

	(void)ctx;
	if (r->err == 0)
		(void)snprintf(text, sizeof(text),
			       "name=%s version=%s api=%s cgroup=%u runtimes=%s default=%s "
			       "seccomp=%d cpus=%u",
			       i->name, i->version, i->api, i->cgroup, i->runtimes,
			       i->default_runtime, i->seccomp, i->cpus);
	ended(r, text);
}

static void
on_image(void *ctx, const struct engine_result *r, const char *id)
{
	(void)ctx;
	if (r->err == 0)
		(void)snprintf(d.spec.image, sizeof(d.spec.image), "%s", id);
	ended(r, id);
}

static void
on_list(void *ctx, const struct engine_result *r, const struct engine_container *list, size_t n)
{
	char text[200];

	(void)ctx;
	(void)snprintf(text, sizeof(text), "n=%zu first=%.64s box=%" PRIu64 " running=%d", n,
		       n > 0 ? list[0].id : "-", n > 0 ? list[0].box : 0, n > 0 && list[0].running);
	ended(r, text);
}

static void
on_create(void *ctx, uint64_t tag, const struct engine_result *r, const char *id)
{
	(void)ctx;
	(void)tag;
	if (r->err == 0)
		(void)snprintf(d.id, sizeof(d.id), "%s", id);
	ended(r, id);
}

static void
on_check(void *ctx, uint64_t tag, const struct engine_result *r, uint32_t pid)
{
	char text[32];

	(void)ctx;
	(void)tag;
	(void)snprintf(text, sizeof(text), "pid=%u", pid);
	ended(r, text);
}

static void
on_done(void *ctx, uint64_t tag, const struct engine_result *r)
{
	(void)ctx;
	(void)tag;
	ended(r, NULL);
}

static void
on_event(void *ctx, const struct engine_event *ev)
{
	(void)ctx;
	if (d.id[0] == '\0' || strcmp(ev->id, d.id) == 0) {
		d.events[ev->kind]++;
		finish();
	}
}

static void
on_gap(void *ctx)
{
	(void)ctx;
	d.gaps++;
	finish();
}

static void
on_opened(void *ctx, uint64_t tag, const struct engine_result *r)
{
	(void)ctx;
	(void)tag;
	ended(r, NULL);
}

static void
on_data(void *ctx, uint64_t tag, int stream, const uint8_t *p, size_t n)
{
	struct buf *b = stream == 1 ? &d.out : &d.err;

	(void)ctx;
	(void)tag;
	d.out_bytes += stream == 1 ? n : 0;
	if (buf_len(b) + n > KEEP)
		buf_clear(b);
	(void)buf_append(b, p, n < KEEP ? n : KEEP);
	finish();
}

static void
on_closed(void *ctx, uint64_t tag, int err)
{
	(void)ctx;
	(void)tag;
	d.closed = true;
	d.closed_err = err;
	finish();
}

static const struct attach_handler handler = {on_opened, on_data, on_closed};

static void
on_stuck(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	printf("%s STUCK\n", d.step);
	(void)fflush(stdout);
	_exit(3);
}

/* ---- waiting ---- */

static void
wait_once(void)
{
	struct event *stuck = evtimer_new(d.base, on_stuck, NULL);
	struct timeval tv = {STUCK_S, 0};

	if (stuck == NULL || evtimer_add(stuck, &tv) == -1)
		exit(2);
	d.waiting = true;
	while (d.waiting)
		(void)event_base_loop(d.base, EVLOOP_ONCE);
	event_free(stuck);
}

static void
run_for(uint64_t ms)
{
	struct timeval tv = {(time_t)(ms / 1000), (suseconds_t)((ms % 1000) * 1000)};

	(void)event_base_loopexit(d.base, &tv);
	(void)event_base_loop(d.base, 0);
}

/* ---- steps ---- */

static const char *
after(const char *word, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(word, prefix, n) == 0 ? word + n : NULL;
}

static uint64_t
number(const char *s)
{
	uint64_t v;

	if (parse_u64(s, 0, UINT64_MAX, &v) < 0)
		exit(2);
	return v;
}

static void
set_spec(const char *word)
{
	const struct {
		const char *key;
		char *text;
		size_t cap;
	} texts[] = {
		{"name=", d.spec.name, sizeof(d.spec.name)},
		{"image=", d.spec.image, sizeof(d.spec.image)},
		{"share=", d.spec.share_dir, sizeof(d.spec.share_dir)},
		{"runtime=", d.spec.runtime, sizeof(d.spec.runtime)},
		{"cgroup_parent=", d.spec.cgroup_parent, sizeof(d.spec.cgroup_parent)},
		{"user_hash=", d.spec.label.user_hash, sizeof(d.spec.label.user_hash)},
	};
	const struct {
		const char *key;
		uint32_t *u32;
		uint64_t *u64;
	} numbers[] = {
		{"uid=", &d.spec.uid, NULL},
		{"pids=", &d.spec.pids, NULL},
		{"cpus=", &d.spec.cpus_milli, NULL},
		{"shares=", &d.spec.cpu_shares, NULL},
		{"shown=", &d.spec.cpus_shown, NULL},
		{"memory=", NULL, &d.spec.memory_bytes},
		{"workspace=", NULL, &d.spec.workspace_bytes},
		{"box=", NULL, &d.spec.label.box},
	};
	const char *v;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		v = after(word, texts[i].key);
		if (v != NULL)
			(void)snprintf(texts[i].text, texts[i].cap, "%s", v);
	}
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		v = after(word, numbers[i].key);
		if (v != NULL && numbers[i].u32 != NULL)
			*numbers[i].u32 = (uint32_t)number(v);
		else if (v != NULL)
			*numbers[i].u64 = number(v);
	}
	v = after(word, "bind=");
	if (v != NULL)
		d.spec.bind_guest = number(v) != 0;
	v = after(word, "seccomp=");
	if (v != NULL)
		d.spec.seccomp_json = v;
}

/* The steps that are one operation of the engine; false when word is none. */
static bool
operation(const char *word)
{
	const char *v;

	if (strcmp(word, "probe") == 0) {
		engine_probe(d.engine, NULL, on_probe);
	} else if ((v = after(word, "image=")) != NULL) {
		engine_image(d.engine, v, NULL, on_image);
	} else if ((v = after(word, "list=")) != NULL) {
		engine_list(d.engine, v, NULL, on_list);
	} else if (strcmp(word, "create") == 0) {
		engine_create(d.engine, &d.spec, NULL, 1, on_create);
	} else if (strcmp(word, "check") == 0) {
		engine_check(d.engine, d.id, &d.spec, NULL, 1, on_check);
	} else if (strcmp(word, "attach") == 0) {
		d.attach = engine_attach(d.engine, d.id, &handler, NULL, 1);
	} else if (strcmp(word, "start") == 0) {
		engine_start(d.engine, d.id, NULL, 1, on_done);
	} else if ((v = after(word, "update=")) != NULL) {
		const char *colon = strchr(v, ':');
		char memory[24] = "";

		if (colon == NULL || (size_t)(colon - v) >= sizeof(memory))
			exit(2);
		memcpy(memory, v, (size_t)(colon - v));
		engine_update(d.engine, d.id, number(memory), (uint32_t)number(colon + 1), NULL, 1,
			      on_done);
	} else if (strcmp(word, "kill") == 0) {
		engine_kill(d.engine, d.id, NULL, 1, on_done);
	} else if (strcmp(word, "remove") == 0) {
		engine_remove(d.engine, d.id, NULL, 1, on_done);
	} else if ((v = after(word, "remove=")) != NULL) {
		engine_remove(d.engine, v, NULL, 1, on_done);
	} else {
		return false;
	}
	return true;
}

static void
flood(uint64_t bytes)
{
	static const char block[16384] = {'x'};
	const uint64_t late = clock_now_ms() + STUCK_S * UINT64_C(1000);

	for (d.flood_left = bytes; d.flood_left > 0;) {
		size_t n = d.flood_left < sizeof(block) ? d.flood_left : sizeof(block);
		int r = attach_send(d.attach, block, n);

		if (r == -ENOBUFS && clock_now_ms() < late) {
			run_for(5);
			continue;
		}
		if (r < 0) {
			say(r, 0, "flood");
			return;
		}
		d.flood_left -= n;
	}
	say(0, 0, "flood");
}

static void
stream_step(const char *word)
{
	static const char *const kinds[] = {"start", "oom", "die", "destroy"};
	const char *v;

	if ((v = after(word, "send=")) != NULL) {
		say(attach_send(d.attach, v, strlen(v)), 0, "");
	} else if ((v = after(word, "flood=")) != NULL) {
		flood(number(v));
	} else if ((v = after(word, "expect=")) != NULL) {
		while (memmem(buf_data(&d.out), buf_len(&d.out), v, strlen(v)) == NULL && !d.closed)
			wait_once();
		say(d.closed && buf_len(&d.out) == 0 ? -EPIPE : 0, 0, v);
	} else if ((v = after(word, "bytes=")) != NULL) {
		while (d.out_bytes < number(v) && !d.closed)
			wait_once();
		say(d.out_bytes < number(v) ? -EPIPE : 0, 0, v);
	} else if (strcmp(word, "closed") == 0) {
		while (!d.closed)
			wait_once();
		say(d.closed_err, 0, "");
	} else if ((v = after(word, "event=")) != NULL) {
		size_t k = 0;

		while (k < ARRAY_LEN(kinds) && strcmp(kinds[k], v) != 0)
			k++;
		if (k == ARRAY_LEN(kinds))
			exit(2);
		while (d.events[k] == 0)
			wait_once();
		d.events[k]--;
		say(0, 0, v);
	} else if (strcmp(word, "gap") == 0) {
		while (d.gaps == 0)
			wait_once();
		d.gaps--;
		say(0, 0, "");
	} else {
		fprintf(stderr, "engine_driver: no step %s\n", word);
		exit(2);
	}
}

static void
step(const char *word)
{
	const char *v;

	d.step = word;
	if ((v = after(word, "spec:")) != NULL) {
		set_spec(v);
	} else if ((v = after(word, "id=")) != NULL) {
		(void)snprintf(d.id, sizeof(d.id), "%s", v);
	} else if ((v = after(word, "sleep=")) != NULL) {
		run_for(number(v));
	} else if ((v = after(word, "begin=")) != NULL) {
		if (!operation(v))
			exit(2);
	} else if (strcmp(word, "events") == 0) {
		engine_events(d.engine, NULL, on_event, on_gap);
	} else if (strcmp(word, "detach") == 0) {
		attach_free(TAKE(d.attach));
	} else if (strcmp(word, "free") == 0) {
		engine_free(TAKE(d.engine));
		d.freed = true;
		run_for(300);
		say(0, 0, "quiet");
	} else if (operation(word)) {
		for (d.answered = false; !d.answered;)
			wait_once();
	} else {
		stream_step(word);
	}
}

/* ---- the engine's address ---- */

static void
read_pem(struct buf *b, const char *path)
{
	char text[8192];
	size_t n;

	if (fd_read_file(AT_FDCWD, path, text, sizeof(text), &n) < 0) {
		fprintf(stderr, "engine_driver: cannot read %s\n", path);
		exit(2);
	}
	buf_init(b, sizeof(text));
	(void)buf_append(b, text, n);
}

static void
set_address(struct engine_config *c, char *word)
{
	char *part[8], *save = NULL;
	size_t n = 0;

	for (char *p = strtok_r(word, ",", &save); p != NULL && n < ARRAY_LEN(part);
	     p = strtok_r(NULL, ",", &save))
		part[n++] = p;
	if (n == 2 && strcmp(part[0], "unix") == 0) {
		c->kind = ENGINE_UNIX;
		(void)snprintf(c->path, sizeof(c->path), "%s", part[1]);
		return;
	}
	if (n < 4) {
		fprintf(stderr, "engine_driver: address?\n");
		exit(2);
	}
	c->kind = strcmp(part[0], "tls") == 0 ? ENGINE_TLS : ENGINE_TCP;
	(void)snprintf(c->host, sizeof(c->host), "%s", part[1]);
	(void)snprintf(c->address, sizeof(c->address), "%s", part[2]);
	c->port = (uint32_t)number(part[3]);
	for (size_t i = 4; i < n; i++) {
		if (strcmp(part[i], "-") != 0)
			read_pem(&c->pem[i - 3], part[i]);
	}
}

int
main(int argc, char **argv)
{
	struct engine_config config = {0};

	if (argc < 2)
		return 2;
	log_init("engine_driver", LOG_L_INFO);
	if (engine_global_init() < 0)
		return 2;
	set_address(&config, argv[1]);
	d.base = event_base_new();
	d.engine = engine_new(d.base, &config);
	buf_init(&d.out, KEEP);
	buf_init(&d.err, KEEP);
	d.spec = (struct box_spec){
		.name = "bailey-0000-driver",
		.uid = 10001,
		.gid = 10001,
		.memory_bytes = 512u << 20,
		.cpus_milli = 1000,
		.cpu_shares = 1024,
		.pids = 64,
		.workspace_bytes = 192u << 20,
		.tmp_bytes = 64u << 20,
		.workspace_inodes = 16384,
		.tmp_inodes = 4096,
		.bind_guest = true,
		.seccomp_json = container_seccomp_json,
		.label = {.instance = "00000000000000000000000000000000",
			  .boot_id = "00000000-0000-0000-0000-000000000000",
			  .user_hash = "enginedriver",
			  .box = 7},
	};
	for (int i = 2; i < argc; i++)
		step(argv[i]);
	if (d.engine != NULL) {
		d.step = "free";
		engine_free(d.engine);
	}
	attach_free(d.attach);
	buf_done(&d.out);
	buf_done(&d.err);
	event_base_free(d.base);
	return 0;
}
