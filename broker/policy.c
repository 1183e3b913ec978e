/*
 * broker/policy.c - a request and its profile become final limits, or a reason
 * why not; and whether a waiting box can serve them. Pure: no I/O, no state.
 *
 * Runs in: bailey-broker.
 * Input: call_submit of an untrusted frontend; settings (trusted).
 * Owns: nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker.h"

#define CPUS_MIN_MILLI 100u
#define TIMEOUT_MIN_MS 1u
#define PAGE UINT64_C(4096)

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint32_t
policy_whole_cpus(uint32_t cpus_milli)
{
	return (cpus_milli + 999) / 1000;
}

static uint32_t
max_cpus(const struct settings *s, const struct profile *p)
{
	uint64_t m = s->max_cpus_milli ? s->max_cpus_milli : p->cpus_max_milli;

	if (s->host_cpus)
		m = least(m, (uint64_t)s->host_cpus * 1000);
	return (uint32_t)m;
}

uint64_t
policy_total_memory(const struct settings *s)
{
	return s->host_memory_bytes / 100 * BOXES_MEMORY_PERCENT;
}

/* The tree's maximum stands for the profile's; more than all may have together nobody can get. */
static uint64_t
max_memory(const struct settings *s, const struct profile *p)
{
	uint64_t m = s->max_memory_bytes ? s->max_memory_bytes : p->memory_max_bytes;

	return s->host_memory_bytes ? least(m, policy_total_memory(s)) : m;
}

/* Both tmpfs together may take half of memory, so that a full disk is not an OOM. */
static void
fit_tmpfs(const struct profile *p, struct limits *l)
{
	uint64_t sum = p->workspace_bytes + p->tmp_bytes, half = l->memory_bytes / 2;
	uint64_t permille = sum > half ? half * 1000 / sum : 1000;

	l->workspace_bytes = p->workspace_bytes * permille / 1000 / PAGE * PAGE;
	l->tmp_bytes = p->tmp_bytes * permille / 1000 / PAGE * PAGE;
	l->workspace_inodes = p->workspace_inodes * permille / 1000;
	l->tmp_inodes = p->tmp_inodes * permille / 1000;
}

void
policy_defaults(const struct settings *s, const struct profile *p, struct limits *ret)
{
	*ret = (struct limits){
		.memory_bytes = least(p->memory_bytes, max_memory(s, p)),
		.cpus_milli = (uint32_t)least(p->cpus_milli, max_cpus(s, p)),
		.pids = p->pids,
		.timeout_ms = p->timeout_ms,
	};
	if (s->timeout_ms && strcmp(p->name, "default") == 0)
		ret->timeout_ms = (uint32_t)least(s->timeout_ms, p->timeout_max_ms);
	fit_tmpfs(p, ret);
}

void
policy_maxima(const struct settings *s, const struct profile *p, struct limits *ret)
{
	*ret = (struct limits){.memory_bytes = max_memory(s, p),
			       .cpus_milli = max_cpus(s, p),
			       .pids = p->pids,
			       .timeout_ms = p->timeout_max_ms};
}

/* Thousandths as people write them: 1500 is "1.5". */
static const char *
decimal(char *out, size_t cap, uint64_t milli)
{
	int n = snprintf(out, cap, "%" PRIu64 ".%03" PRIu64, milli / 1000, milli % 1000);

	while (n > 0 && out[n - 1] == '0')
		out[--n] = '\0';
	if (n > 0 && out[n - 1] == '.')
		out[n - 1] = '\0';
	return out;
}

/* Names the argument a caller can change; figures in thousandths of its unit. */
static int
deny(struct decision *d, const char *argument, uint64_t got, uint64_t low, uint64_t high)
{
	char text[3][32];

	(void)snprintf(d->message, sizeof(d->message),
		       "%s %s is outside what profile \"%s\" allows: %s to %s.", argument,
		       decimal(text[0], sizeof(text[0]), got), d->profile->name,
		       decimal(text[1], sizeof(text[1]), low),
		       decimal(text[2], sizeof(text[2]), high));
	return -EPERM;
}

static const char *
image_of(const struct settings *s, const struct profile *p)
{
	return p->image[0] ? p->image : s->image;
}

static uint64_t
milli_mb(uint64_t bytes)
{
	return bytes / 1048576 * 1000;
}

static int
decide_memory(const struct settings *s, const struct ipc_call_submit *req, struct decision *d)
{
	uint64_t high = max_memory(s, d->profile);
	uint64_t low = req->box_class == BOX_NODE ? PROFILE_NODE_MEMORY_MIN_BYTES
						  : PROFILE_MEMORY_MIN_BYTES;

	if (req->memory_bytes)
		d->limits.memory_bytes = req->memory_bytes;
	if (d->limits.memory_bytes < low || d->limits.memory_bytes > high)
		return deny(d, "memory_mb", milli_mb(d->limits.memory_bytes), milli_mb(low),
			    milli_mb(high));
	d->limits.memory_bytes -= d->limits.memory_bytes % PAGE;
	fit_tmpfs(d->profile, &d->limits);
	return 0;
}

static int
decide_timeout(const struct settings *s, const struct ipc_call_submit *req, struct decision *d)
{
	struct limits defaults;

	policy_defaults(s, d->profile, &defaults);
	d->limits.timeout_ms = req->timeout_ms ? req->timeout_ms : defaults.timeout_ms;
	if (d->limits.timeout_ms > d->profile->timeout_max_ms)
		return deny(d, "timeout_seconds", d->limits.timeout_ms, TIMEOUT_MIN_MS,
			    d->profile->timeout_max_ms);
	if (!req->timeout_ms && (req->flags & CALL_BACKGROUND))
		d->limits.timeout_ms = 0; /* none unless it was asked for */
	return 0;
}

/* How long a sandbox stays. */
static int
decide_stay(const struct ipc_call_submit *req, struct decision *d)
{
	const struct profile *p = d->profile;
	uint64_t high = (uint64_t)p->lifetime_max_s * 1000;

	d->ttl_s = req->ttl_s ? req->ttl_s : p->lifetime_s;
	d->idle_s = req->idle_s ? req->idle_s : p->idle_s;
	if (d->ttl_s > p->lifetime_max_s)
		return deny(d, "ttl_seconds", (uint64_t)d->ttl_s * 1000, 1000, high);
	if (d->idle_s > p->lifetime_max_s)
		return deny(d, "idle_timeout_seconds", (uint64_t)d->idle_s * 1000, 1000, high);
	return 0;
}

int
policy_decide_within(const struct settings *s, const struct profile *p, const struct limits *have,
		     const struct ipc_call_submit *req, struct decision *ret)
{
	*ret = (struct decision){.profile = p, .limits = *have};
	return decide_timeout(s, req, ret);
}

/* A caller that got the name wrong hears the right ones. */
static int
no_such_profile(struct decision *d)
{
	struct buf words;
	int r;

	buf_init(&words, sizeof(d->message) - 1);
	r = buf_printf(&words, "There is no profile of that name. There is:");
	for (size_t i = 0; r == 0 && i < profile_count(); i++)
		r = buf_printf(&words, " %s%s", profile_at(i)->name,
			       i + 1 < profile_count() ? "," : ".");
	(void)str_copy(d->message, sizeof(d->message), (const char *)buf_data(&words),
		       buf_len(&words)); /* what there is of it fits */
	buf_done(&words);
	return -EPERM;
}

int
policy_decide(const struct settings *s, const struct ipc_call_submit *req, struct decision *ret)
{
	struct decision d = {0};
	const char *image;
	int r;

	d.profile = profile_find(req->profile.data, req->profile.len);
	if (!d.profile) {
		r = no_such_profile(&d);
		goto out;
	}
	image = image_of(s, d.profile);
	if (req->image.len && (req->image.len != strlen(image) ||
			       memcmp(req->image.data, image, req->image.len) != 0)) {
		(void)snprintf(d.message, sizeof(d.message),
			       "The only image profile \"%s\" allows is %.256s.", d.profile->name,
			       image);
		r = -EPERM;
		goto out;
	}
	policy_defaults(s, d.profile, &d.limits);
	r = decide_memory(s, req, &d);
	if (r < 0)
		goto out;
	if (req->cpus_milli)
		d.limits.cpus_milli = req->cpus_milli;
	if (d.limits.cpus_milli < CPUS_MIN_MILLI || d.limits.cpus_milli > max_cpus(s, d.profile)) {
		r = deny(&d, "cpus", d.limits.cpus_milli, CPUS_MIN_MILLI, max_cpus(s, d.profile));
		goto out;
	}
	r = decide_timeout(s, req, &d);
	if (r == 0)
		r = decide_stay(req, &d);
out:
	*ret = d;
	return r;
}

struct fit
policy_fit(enum box_class box_class, const struct limits *have, const struct limits *want,
	   uint32_t call_flags, bool can_update)
{
	struct fit f = {.start = START_WARM};
	bool memory = have->memory_bytes != want->memory_bytes;
	bool cpus = have->cpus_milli != want->cpus_milli;

	/* Sizes of tmpfs and the processor files are bound at create and stay. */
	f.cold = have->workspace_bytes != want->workspace_bytes ||
		 have->tmp_bytes != want->tmp_bytes || have->pids != want->pids ||
		 policy_whole_cpus(have->cpus_milli) != policy_whole_cpus(want->cpus_milli) ||
		 ((memory || cpus) && !can_update);
	f.update = memory || cpus;
	f.wait = want->memory_bytes > have->memory_bytes || want->cpus_milli > have->cpus_milli;
	if ((call_flags & CALL_LIVE) || (box_class == BOX_NODE && memory))
		f.start = START_LIVE; /* a waiting node sized its heap at its start */
	if (box_class == BOX_SHELL)
		f.start = START_WARM;
	return f;
}
