/*
 * cli/bench.c - `bailey bench`: whole MCP calls over stdio beside the same
 * snippets on the host, docker exec and the raw engine, interleaved in one run.
 * Runs in: the calling user's terminal, with that user's rights on the engine.
 * Input: answers of our own tree and of the engine.
 * Owns: the trees it starts, a temporary copy of the image's root, one sleeping
 *   container; all are gone when it returns.
 * The method is described in HACKING.md.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct bench {
	struct mcp_client tree;
	struct host_root root;
	struct report report;
	const char *image, *only; /* only: one part's name, NULL = all */
	char sleeper[65];
	size_t n_warm, n_exec_every, n_paced, n_cold;
	unsigned loop_s;
	bool quick;
	struct series call[BENCH_LANGS], first[BENCH_LANGS];
	struct series host[BENCH_LANGS], host_first[BENCH_LANGS];
	struct series exec, share, paced, cold, raw;
	double runs_per_s, raw_per_s;
};

static const char *const classes[BENCH_LANGS] = {"python", "node", "shell"};

static void
sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	(void)nanosleep(&t, NULL); /* a shorter pause only repeats the check sooner */
}

static double
ms_between(uint64_t from_us, uint64_t to_us)
{
	return (double)(to_us - from_us) / 1000.0;
}

static cJSON *
code_arguments(const char *language, const char *code)
{
	cJSON *a = cJSON_CreateObject();

	cJSON_AddStringToObject(a, "language", language);
	cJSON_AddStringToObject(a, "code", code);
	return a;
}

static double
number(const cJSON *o, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* True when lang's pool has a box ready (as many as it wants, when full) and nothing is starting.
 */
static bool
pool_quiet(const cJSON *health, const char *class, bool *ret_known)
{
	const cJSON *s = cJSON_GetObjectItemCaseSensitive(health, "structuredContent");
	const cJSON *pool = cJSON_GetObjectItemCaseSensitive(s, "pool");
	const cJSON *row;
	bool quiet = true;

	cJSON_ArrayForEach(row, pool)
	{
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(row, "box_class");
		if (cJSON_IsString(name) && strcmp(name->valuestring, class) == 0) {
			*ret_known = number(row, "target") >= 1;
			quiet = quiet && number(row, "ready") >= 1;
		}
		quiet = quiet && number(row, "starting") == 0 &&
			number(row, "ready") >= number(row, "target");
	}
	return quiet;
}

int
bench_wait_quiet(struct mcp_client *tree, const char *class)
{
	uint64_t until = clock_now_ms() + 30000;

	while (clock_now_ms() < until) {
		bool known = false;
		cJSON *health =
			mcp_call(tree, "check_sandbox_health", cJSON_CreateObject(), false, NULL);
		if (health == NULL)
			return -EPIPE;
		bool quiet = pool_quiet(health, class, &known);
		cJSON_Delete(health);
		if (quiet && known) {
			sleep_ms(60); /* the last box's removal is over by then */
			return 0;
		}
		sleep_ms(25);
	}
	cli_error("the %s pool did not fill within 30 s", class);
	return -ETIMEDOUT;
}

/* One call that must succeed; its timing and result. */
static int
checked_call(struct mcp_client *tree, const struct bench_snippet *s, bool progress,
	     const char *want_start, struct mcp_timing *t, double *ret_run_ms)
{
	cJSON *result =
		mcp_call(tree, "execute_code", code_arguments(s->language, s->code), progress, t);

	if (result == NULL)
		return -EPIPE;
	const char *status = mcp_result_str(result, "status");
	const char *start = mcp_result_str(result, "start");
	int r = 0;
	if (strcmp(status, "ok") != 0) {
		cli_error("a %s call ended as %s: %s", s->language, status,
			  mcp_result_str(result, "message"));
		r = -EIO;
	} else if (want_start != NULL && strcmp(start, want_start) != 0) {
		r = -EAGAIN;
	}
	if (ret_run_ms != NULL)
		*ret_run_ms = mcp_result_num(result, "duration_ms", (double)NAN);
	cJSON_Delete(result);
	return r;
}

static int
warm_step(struct bench *b, enum bench_lang lang, size_t i)
{
	struct mcp_timing t = {0};
	double run_ms = (double)NAN, host_exit = 0, host_first = 0, ms = 0;

	/* Both from the same quiet: the one that follows the other at once would find caches warm,
	 * and processors taken by the removal of a box. */
	int r = bench_wait_quiet(&b->tree, classes[lang]);
	if (r == 0)
		r = host_run(&b->root, lang, &host_exit, &host_first);
	if (r < 0)
		return r;
	series_add(&b->host[lang], host_exit);
	series_add(&b->host_first[lang], host_first);
	r = bench_wait_quiet(&b->tree, classes[lang]);
	if (r == 0)
		r = checked_call(&b->tree, &bench_snippets[lang], false, "warm", &t, &run_ms);
	if (r < 0)
		return r;
	ms = ms_between(t.written_us, t.answered_us);
	series_add(&b->call[lang], ms);
	series_add(&b->share, ms - run_ms);
	if (i % 4 == 0) {
		r = bench_wait_quiet(&b->tree, classes[lang]);
		if (r == 0)
			r = checked_call(&b->tree, &bench_snippets[lang], true, "warm", &t, NULL);
		if (r == 0 && t.first_us != 0)
			series_add(&b->first[lang], ms_between(t.written_us, t.first_us));
	}
	if (r == 0 && lang == BENCH_PYTHON && i % b->n_exec_every == 0) {
		r = raw_exec(b->sleeper, "[\"python3\",\"-c\",\"print('hello')\"]", &ms);
		series_add(&b->exec, ms);
	}
	return r;
}

static int
bench_warm(struct bench *b)
{
	struct mcp_timing t = {0};

	/* The node pool starts with the language's first use. */
	int r = checked_call(&b->tree, &bench_snippets[BENCH_NODE], false, NULL, &t, NULL);
	for (size_t i = 0; r == 0 && i < b->n_warm; i++) {
		for (int lang = 0; r == 0 && lang < BENCH_LANGS; lang++) {
			r = warm_step(b, (enum bench_lang)lang, i);
			if (r == -EAGAIN) {
				cli_error("a %s call with a full pool did not start warm",
					  bench_snippets[lang].language);
				r = -EIO;
			}
		}
		if ((i + 1) % (b->n_warm / 10) == 0)
			fprintf(stderr, "bench: warm %zu of %zu\n", i + 1, b->n_warm);
	}
	return r;
}

static int
bench_paced(struct bench *b)
{
	struct mcp_timing t = {0};
	int r = bench_wait_quiet(&b->tree, classes[BENCH_PYTHON]);

	for (size_t i = 0; r == 0 && i < b->n_paced; i++) {
		uint64_t next = clock_now_ms() + 1000;
		r = checked_call(&b->tree, &bench_snippets[BENCH_PYTHON], false, NULL, &t, NULL);
		series_add(&b->paced, ms_between(t.written_us, t.answered_us));
		uint64_t now = clock_now_ms();
		if (now < next)
			sleep_ms((unsigned)(next - now));
	}
	return r;
}

static int
bench_cold(struct bench *b)
{
	static const char *const entry[] = {"/bin/bash", "-c", ":", NULL};
	static const struct bench_snippet nothing = {"bash", "/bin/bash", "main.sh", ":\n"};
	cleanup_free char *body = raw_box_body(b->image, entry);
	struct mcp_client tree;
	struct mcp_timing t = {0};

	if (setenv("BAILEY_POOL", "0", 1) == -1)
		return -errno;
	int r = mcp_open(&tree, mcp_server_argv());
	(void)unsetenv("BAILEY_POOL");
	if (r == 0)
		r = checked_call(&tree, &nothing, false, NULL, &t, NULL); /* engine probed once */
	for (size_t i = 0; r == 0 && i < b->n_cold; i++) {
		double ms = 0;
		sleep_ms(150);
		r = checked_call(&tree, &nothing, false, NULL, &t, NULL);
		series_add(&b->cold, ms_between(t.written_us, t.answered_us));
		sleep_ms(150);
		if (r == 0)
			r = raw_cycle(body, &ms);
		series_add(&b->raw, ms);
	}
	(void)mcp_close(&tree); /* its answers were all checked */
	return r;
}

/* What the pool held ready before a loop is used up and not counted: only a machine that makes a
 * container for each answer is sustained. */
#define SUSTAINED_UNCOUNTED 12u
#define SUSTAINED_ROUNDS 4 /* alternating, so that a machine that slows down slows both */

/* 8 calls in flight for loop_s seconds; answers per second. */
static int
sustained_calls(struct bench *b, double *ret)
{
	uint64_t start = clock_now_ms();
	uint64_t end = start + (uint64_t)b->loop_s * 1000u;
	size_t answered = 0, in_flight = 0;
	uint64_t last = start;

	for (;;) {
		while (in_flight < 8 && clock_now_ms() < end) {
			cJSON *p = cJSON_CreateObject();
			cJSON_AddStringToObject(p, "name", "execute_code");
			cJSON_AddItemToObject(p, "arguments",
					      code_arguments("bash", "echo hello\n"));
			if (mcp_send(&b->tree, "tools/call", p) == 0)
				return -EPIPE;
			in_flight++;
		}
		if (in_flight == 0)
			break;
		cJSON *m = mcp_next(&b->tree, 60000);
		if (m == NULL)
			return -EPIPE;
		const char *status =
			mcp_result_str(cJSON_GetObjectItemCaseSensitive(m, "result"), "status");
		bool ok = strcmp(status, "ok") == 0;
		if (!ok)
			cli_error("a sustained call ended as %s", status);
		cJSON_Delete(m);
		if (!ok)
			return -EIO;
		in_flight--;
		answered++;
		last = clock_now_ms();
		if (answered == SUSTAINED_UNCOUNTED)
			start = last;
	}
	if (answered <= SUSTAINED_UNCOUNTED || last == start)
		return -ETIME;
	*ret = (double)(answered - SUSTAINED_UNCOUNTED) * 1000.0 / (double)(last - start);
	return 0;
}

static void
raw_loop_child(const char *body, uint64_t end, int out)
{
	uint32_t n = 0;

	while (clock_now_ms() < end) {
		if (raw_cycle(body, NULL) < 0)
			_exit(1);
		n++;
	}
	_exit(write(out, &n, sizeof(n)) == (ssize_t)sizeof(n) ? 0 : 1);
}

static int
sustained_raw(struct bench *b, double *ret)
{
	static const char *const entry[] = {"/bin/bash", "-c", "echo hello", NULL};
	cleanup_free char *body = raw_box_body(b->image, entry);
	uint64_t start = clock_now_ms();
	int fds[2];
	int failed = 0;
	size_t total = 0;

	if (pipe2(fds, O_CLOEXEC) == -1)
		return -errno;
	for (int i = 0; i < 8; i++) {
		pid_t pid = fork();
		if (pid == 0)
			raw_loop_child(body, start + (uint64_t)b->loop_s * 1000u, fds[1]);
		failed += pid == -1;
	}
	for (int i = 0; i < 8 - failed; i++) {
		int status;
		uint32_t n = 0;
		if (wait(&status) == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
			return -EIO;
		if (read(fds[0], &n, sizeof(n)) == (ssize_t)sizeof(n))
			total += n;
	}
	*ret = (double)total * 1000.0 / (double)(clock_now_ms() - start);
	close(fds[0]);
	close(fds[1]);
	return failed == 0 ? 0 : -EAGAIN;
}

static int
bench_sustained(struct bench *b)
{
	for (int round = 0; round < SUSTAINED_ROUNDS; round++) {
		double ours = 0, raw = 0;
		int r = sustained_calls(b, &ours);
		sleep_ms(3000); /* pools refilled, removals done */
		if (r == 0)
			r = sustained_raw(b, &raw);
		if (r < 0)
			return r;
		b->runs_per_s += ours / SUSTAINED_ROUNDS;
		b->raw_per_s += raw / SUSTAINED_ROUNDS;
		sleep_ms(1000);
	}
	return 0;
}

/* PSS of a process in bytes, 0 when it cannot be read. */
static double
pss_bytes(pid_t pid)
{
	char path[64], text[4096];
	size_t len = 0;
	uint64_t kb = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text), &len) < 0)
		return 0;
	char *at = strstr(text, "\nPss:");
	if (at == NULL)
		return 0;
	at += strcspn(at, "0123456789");
	at[strspn(at, "0123456789")] = '\0';
	return parse_u64(at, 0, UINT32_MAX, &kb) < 0 ? 0 : (double)kb * 1024;
}

static double
tree_pss(pid_t supervisor)
{
	char path[64], text[1024];
	size_t len = 0;
	double sum = pss_bytes(supervisor);

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)supervisor,
		       (int)supervisor);
	if (sum == 0 || fd_read_file(AT_FDCWD, path, text, sizeof(text), &len) < 0)
		return (double)NAN;
	for (char *word = text; *word != '\0';) {
		char *end = word + strcspn(word, " ");
		uint64_t pid = 0;
		if (*end != '\0')
			*end++ = '\0';
		if (parse_u64(word, 1, INT32_MAX, &pid) == 0)
			sum += pss_bytes((pid_t)pid);
		word = end;
	}
	return sum;
}

static void
fill_report(struct bench *b)
{
	struct report *r = &b->report;
	double p50[BENCH_LANGS], host[BENCH_LANGS], tails[BENCH_LANGS], tail = (double)NAN;

	for (int l = 0; l < BENCH_LANGS; l++) {
		p50[l] = series_p(&b->call[l], 50);
		host[l] = series_p(&b->host[l], 50);
		double t = series_p(&b->call[l], 99) / p50[l];
		tail = fmax(tail, t); /* the number where one is none */
		tails[l] = t;
	}
	report_add(r, "warm python / host python, to full exit", "", p50[0] / host[0], 0.40, false,
		   "%.2f / %.2f ms, n=%zu", p50[0], host[0], b->call[0].n);
	report_add(r, "warm python / host python, to first output", "",
		   series_p(&b->first[0], 50) / series_p(&b->host_first[0], 50), 0.22, false,
		   "%.2f / %.2f ms (to the host's exit: %.3f)", series_p(&b->first[0], 50),
		   series_p(&b->host_first[0], 50), series_p(&b->first[0], 50) / host[0]);
	report_add(r, "warm node / host node, to full exit", "", p50[1] / host[1], 0.30, false,
		   "%.2f / %.2f ms", p50[1], host[1]);
	report_add(r, "warm bash echo - host bash", "ms", p50[2] - host[2], 1.0, false,
		   "%.2f - %.2f ms", p50[2], host[2]);
	report_add(r, "warm python / docker exec python", "", p50[0] / series_p(&b->exec, 50), 0.08,
		   false, "%.2f / %.2f ms, n=%zu", p50[0], series_p(&b->exec, 50), b->exec.n);
	report_add(r, "warm p99 / p50, engine quiet", "", tail, 2, false,
		   "worst of python %.2f, node %.2f, bash %.2f", tails[0], tails[1], tails[2]);
	report_add(r, "python p99 / p50, one call a second with refills", "",
		   series_p(&b->paced, 99) / series_p(&b->paced, 50), 4, false,
		   "%.2f / %.2f ms, n=%zu", series_p(&b->paced, 99), series_p(&b->paced, 50),
		   b->paced.n);
	report_add(r, "cold / raw engine create+start+attach", "",
		   series_p(&b->cold, 50) / series_p(&b->raw, 50), 1.10, false,
		   "%.1f / %.1f ms, n=%zu", series_p(&b->cold, 50), series_p(&b->raw, 50),
		   b->cold.n);
	report_add(r, "sustained runs/s / raw engine loop, 8 at once", "",
		   b->runs_per_s / b->raw_per_s, 0.95, true, "%.2f / %.2f per s", b->runs_per_s,
		   b->raw_per_s);
	report_add(r, "idle PSS of all host processes", "MB", tree_pss(b->tree.pid) / 1e6, 12,
		   false, "supervisor, frontend, broker, reaper");
	report_add(r, "our share of a call, p50", "ms", series_p(&b->share, 50), 0.3, false,
		   "call - (RUN written to EXIT read), n=%zu", b->share.n);
	report_add(r, "our share of a call, p99", "ms", series_p(&b->share, 99), 0.6, false,
		   "same");
}

static const struct {
	const char *name;
	int (*run)(struct bench *b);
} parts[] = {{"warm", bench_warm},
	     {"paced", bench_paced},
	     {"cold", bench_cold},
	     {"sustained", bench_sustained}};

static int
bench_all(struct bench *b)
{
	/* Longer than any bench; its end, and AutoRemove, where this one is killed. */
	static const char *const entry[] = {"/usr/bin/sleep", "7200", NULL};
	cleanup_free char *body = raw_box_body(b->image, entry);

	int r = raw_sleeper(body, b->sleeper);
	if (r == 0)
		bench_after_container(b->sleeper);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++) {
		if (b->only != NULL && strcmp(b->only, parts[i].name) != 0)
			continue;
		fprintf(stderr, "bench: %s calls\n", parts[i].name);
		r = parts[i].run(b);
		if (r < 0)
			cli_error("%s: %s", parts[i].name, strerror(-r));
	}
	if (b->sleeper[0] != '\0') {
		cleanup_free char *path = xasprintf("/containers/%s?force=1", b->sleeper);
		(void)raw_request("DELETE", path, NULL, NULL); /* AutoRemove may have been first */
	}
	return r;
}

static const struct part {
	const char *name;
	int (*run)(const struct bench_side *s);
} more_parts[] = {{"creations", bench_creations},
		  {"stays", bench_stays},
		  {"files", bench_files},
		  {"clients", bench_clients}};

static bool
is_more_part(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(more_parts); i++)
		if (strcmp(name, more_parts[i].name) == 0)
			return true;
	return false;
}

static bool
is_part(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strcmp(name, parts[i].name) == 0)
			return true;
	return is_more_part(name);
}

static int
bench_more(struct bench *b)
{
	const struct bench_side side = {.tree = &b->tree,
					.root = &b->root,
					.report = &b->report,
					.image = b->image,
					.quick = b->quick};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(more_parts); i++) {
		const struct part *p = &more_parts[i];
		if (b->only != NULL && strcmp(b->only, p->name) != 0)
			continue;
		fprintf(stderr, "bench: %s\n", p->name);
		r = p->run(&side);
		if (r < 0)
			cli_error("%s: %s", p->name, strerror(-r));
	}
	return r;
}

/* What was begun is reported, whatever stopped it. */
static int
bench_run(struct bench *b)
{
	int r = 0;

	if (b->only == NULL || !is_more_part(b->only)) {
		r = bench_all(b);
		sleep_ms(2000);
		fill_report(b);
	}
	return r < 0 ? r : bench_more(b);
}

int
cmd_bench(int argc, char **argv)
{
	struct bench b = {
		.n_warm = 1000, .n_exec_every = 20, .n_paced = 120, .n_cold = 40, .loop_s = 15};
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			json = true;
		} else if (strcmp(argv[i], "--quick") == 0) {
			b.quick = true;
			b.n_warm = 40;
			b.n_exec_every = 4;
			b.n_paced = 20;
			b.n_cold = 10;
			b.loop_s = 8;
		} else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc && is_part(argv[i + 1])) {
			b.only = argv[++i];
		} else {
			cli_error("usage: bailey bench [--json] [--quick] [--only "
				  "warm|paced|cold|sustained|creations|stays|files|clients]");
			return CLI_USAGE;
		}
	}
	b.image = getenv("SANDBOX_IMAGE");
	if (b.image == NULL)
		b.image = "bailey/sandbox:slim";
	char **server = mcp_server_argv();
	int r = server == NULL ? -ENOENT : bench_after_start();
	if (r == 0)
		r = host_root_open(&b.root, b.image);
	if (r < 0) {
		bench_after_end();
		cli_error("the baseline cannot be set up from image %s: %s", b.image, strerror(-r));
		return CLI_FAILED;
	}
	(void)snprintf(
		b.report.baseline, sizeof(b.report.baseline), "%s, clean environment, vfork+exec",
		geteuid() == 0 ? "chroot into the image's root" : "the host's own interpreters");
	report_machine(&b.report);
	r = mcp_open(&b.tree, server);
	if (r < 0) {
		mcp_open_failed(r);
	} else {
		r = bench_run(&b);
		(void)mcp_close(&b.tree);
	}
	host_root_close(&b.root);
	bench_after_end();
	report_print(&b.report, json);
	return r < 0 ? CLI_FAILED : CLI_OK;
}
