/*
 * frontend/health.c - check_sandbox_health: the broker's rows as one report.
 * Runs in: bailey-frontend.
 * Input: health rows; the strings in them come from the engine and its images.
 * Owns: nothing; the report belongs to its call.
 */
#include <string.h>

#include <cjson/cJSON.h>

#include "confine.h"
#include "frontend.h"

#define LIST_MAX 64 /* entries of one list: a broker sends far fewer */

/* The name is there from health_new; its place stays. */
static void
set(cJSON *object, const char *name, cJSON *value)
{
	if (!cJSON_ReplaceItemInObjectCaseSensitive(object, name, value))
		cJSON_Delete(value);
}

static cJSON *
visible(const struct ipc_str *s)
{
	struct buf text;
	cJSON *item;

	buf_init(&text, 8192);
	(void)text_append_visible(&text, (const uint8_t *)s->data, s->len);
	(void)buf_append(&text, "", 1);
	item = cJSON_CreateString((const char *)buf_data(&text));
	buf_done(&text);
	return item;
}

static void
add_text(cJSON *object, const char *name, const struct ipc_str *s)
{
	(void)cJSON_AddItemToObject(object, name, visible(s));
}

static void
add_number(cJSON *object, const char *name, uint64_t value)
{
	result_add_milli(object, name, value * 1000);
}

struct cJSON *
health_new(void)
{
	cJSON *health = cJSON_CreateObject();

	(void)cJSON_AddNullToObject(health, "status");
	(void)cJSON_AddStringToObject(health, "message", "");
	(void)cJSON_AddStringToObject(health, "version", BAILEY_VERSION);
	(void)cJSON_AddNullToObject(health, "engine");
	(void)cJSON_AddNullToObject(health, "image");
	(void)cJSON_AddArrayToObject(health, "pool");
	(void)cJSON_AddNullToObject(health, "usage");
	(void)cJSON_AddNullToObject(health, "limits");
	(void)cJSON_AddArrayToObject(health, "processes");
	(void)cJSON_AddArrayToObject(health, "warnings");
	return health;
}

static void
set_status(cJSON *health, enum run_status status, const struct ipc_str *said)
{
	set(health, "status", cJSON_CreateString(run_status_name(status)));
	if (said->len > 0)
		set(health, "message", visible(said));
	else
		set(health, "message", cJSON_CreateString(run_status_advice(status)));
}

static void
on_engine(cJSON *health, const struct ipc_health_engine *row)
{
	cJSON *engine = cJSON_CreateObject(), *image = cJSON_CreateObject();

	set_status(health,
		   row->status < RUN_STATUS_COUNT ? (enum run_status)row->status : RUN_internal,
		   &row->message);
	add_text(engine, "name", &row->engine);
	add_text(engine, "version", &row->version);
	add_text(engine, "api_version", &row->api);
	add_number(engine, "cgroup_version", row->cgroup);
	add_text(engine, "runtimes", &row->runtimes);
	set(health, "engine", engine);
	add_text(image, "name", &row->image);
	add_text(image, "id", &row->image_id);
	set(health, "image", image);
}

/* NULL when the list is full. */
static cJSON *
list_entry(cJSON *health, const char *list)
{
	cJSON *array = cJSON_GetObjectItemCaseSensitive(health, list);
	cJSON *item;

	if (cJSON_GetArraySize(array) >= LIST_MAX)
		return NULL;
	item = cJSON_CreateObject();
	(void)cJSON_AddItemToArray(array, item);
	return item;
}

static void
on_pool(cJSON *health, const struct ipc_health_pool *row)
{
	cJSON *item = row->box_class < BOX_CLASSES ? list_entry(health, "pool") : NULL;

	if (item == NULL)
		return;
	(void)cJSON_AddStringToObject(item, "box_class", box_class_name(row->box_class));
	add_number(item, "target", row->target);
	add_number(item, "ready", row->ready);
	add_number(item, "starting", row->starting);
}

static void
on_usage(cJSON *health, const struct ipc_health_usage *row)
{
	cJSON *usage = cJSON_CreateObject(), *limits = cJSON_CreateObject();

	add_number(usage, "sandboxes", row->boxes);
	add_number(usage, "sandboxes_max", row->boxes_max);
	add_number(usage, "queued", row->queued);
	add_number(usage, "queued_max", row->queued_max);
	add_number(usage, "own_memory_bytes", row->own_memory_bytes);
	add_number(usage, "own_memory_max_bytes", row->own_memory_max_bytes);
	add_number(usage, "memory_bytes", row->memory_bytes);
	add_number(usage, "memory_max_bytes", row->memory_max_bytes);
	set(health, "usage", usage);
	add_number(limits, "timeout_ms", row->timeout_ms);
	add_number(limits, "timeout_max_ms", row->timeout_max_ms);
	add_number(limits, "memory_bytes", row->limit_memory_bytes);
	add_number(limits, "memory_max_bytes", row->limit_memory_max_bytes);
	result_add_milli(limits, "cpus", row->cpus_milli);
	result_add_milli(limits, "cpus_max", row->cpus_max_milli);
	add_number(limits, "pids", row->pids);
	set(health, "limits", limits);
}

static void
on_layers(cJSON *health, const struct ipc_health_layers *row)
{
	bool known = row->role == IPC_SUPERVISOR || row->role == IPC_FRONTEND ||
		     row->role == IPC_BROKER || row->role == IPC_REAPER;
	cJSON *item = known ? list_entry(health, "processes") : NULL;
	cJSON *layers;
	enum confine_layer one;
	uint32_t cursor = 0;

	if (item == NULL)
		return;
	(void)cJSON_AddStringToObject(item, "name", ipc_role_name((enum ipc_role)row->role));
	layers = cJSON_AddArrayToObject(item, "layers");
	while (confine_next_layer(row->layers, &cursor, &one))
		(void)cJSON_AddItemToArray(layers, cJSON_CreateString(confine_layer_name(one)));
	add_number(item, "restarts", row->restarts);
	add_text(item, "last_end", &row->last_end);
}

static void
on_note(cJSON *health, const struct ipc_health_note *row)
{
	cJSON *warnings = cJSON_GetObjectItemCaseSensitive(health, "warnings");

	if (cJSON_GetArraySize(warnings) < LIST_MAX)
		(void)cJSON_AddItemToArray(warnings, visible(&row->text));
}

void
health_row(struct cJSON *health, const struct ipc_row *row)
{
	if (row->num == IPC_NUM_health_engine)
		on_engine(health, &row->u.health_engine);
	else if (row->num == IPC_NUM_health_pool)
		on_pool(health, &row->u.health_pool);
	else if (row->num == IPC_NUM_health_usage)
		on_usage(health, &row->u.health_usage);
	else if (row->num == IPC_NUM_health_layers)
		on_layers(health, &row->u.health_layers);
	else if (row->num == IPC_NUM_health_note)
		on_note(health, &row->u.health_note);
}

static void
on_row(struct call *c, const struct ipc_row *row)
{
	health_row(c->job, row);
}

static void
answer(struct call *c, const struct ipc_call_ended *ended)
{
	enum run_status status = result_known(ended->status);
	cJSON *health = TAKE(c->job);

	if (status != RUN_ok || cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(health, "status")))
		set_status(health, status == RUN_ok ? RUN_internal : status, &ended->message);
	/* a report of trouble is an answer, not a failed call */
	result_send(c->fe, &c->to, health, NULL, false);
}

static void
done(void *job)
{
	cJSON_Delete(job);
}

static void
on_again(struct call *c)
{
	cJSON_Delete(c->job);
	c->job = health_new();
}

static const struct step steps[] = {{.submit = upcalls_health, .row = on_row, .again = on_again}};
const struct plan health_plan = {steps, ARRAY_LEN(steps), answer, done};

void
tool_health(const struct tool_request *rq, enum tool_no tool)
{
	struct call *c = call_new(rq->fe, rq->to, &health_plan);

	(void)tool;
	if (c == NULL) {
		result_send_refusal(rq->fe, rq->to,
				    "Too many calls are in flight. Try again later.");
		return;
	}
	c->job = health_new();
	call_start(c);
}
