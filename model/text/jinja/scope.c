/* Names to slots. Jinja decides what a name means when it compiles, not when it runs: a name stored anywhere in a scope
 * belongs to that scope, from its entry on. This follows jinja2/idtracking.py (what is a load, a store, a parameter, an
 * alias) and jinja2/compiler.py (which statements open a frame). A slot takes the place of a Python local variable.
 *
 * Instead of copying the symbols for each branch of an `if`, branches share them and the names stored in any branch are
 * corrected after it, which ends in the same state. */
#include <string.h>

#include "model/text/jinja/ast.h"
#include "model/text/jinja/run.h"

struct symbol {
    uint32_t name, slot;
    bool stored;
    enum jinja_load_action action;
    const struct symbols *outer; /* alias: where from */
    uint32_t outer_slot;
};

/* One frame. */
struct symbols {
    const struct symbols *parent;
    struct jinja_function *function;
    uint32_t function_depth;
    struct symbol *items;
    uint32_t count, capacity;
    uint32_t *index;  /* (capacity * 2) item + 1, 0: empty */
    uint32_t *stored; /* (stored_count) items in the order in which they were first stored */
    uint32_t stored_count;
};

struct scoper {
    struct jinja_program *program;
    struct arena scratch;
    struct error *error;
    enum status status;
    uint32_t loop_name, caller_name, kwargs_name, varargs_name; /* UINT32_MAX: not used */
};

/* Where the second pass is. */
struct frame {
    struct symbols *symbols;
    bool soft;      /* in an `if`: unknown filters fail when they are reached, not now */
    bool in_for;    /* `loop` may not be assigned */
    bool breakable; /* break and continue have a loop to act on */
};

static bool analyze(struct scoper *scoper, struct symbols *symbols, const struct jinja_node *node);
static bool resolve(struct scoper *scoper, struct frame frame, struct jinja_node *node);
static bool resolve_block(struct scoper *scoper, struct frame frame, const struct jinja_block *block);

static bool no_memory(struct scoper *scoper)
{
    if (scoper->status == STATUS_OK)
        scoper->status = error_no_memory(scoper->error, "a chat template");
    return false;
}

static bool fail(struct scoper *scoper, uint32_t line, const char *what, const char *name, const char *after)
{
    if (scoper->status == STATUS_OK)
        scoper->status =
            error_set(scoper->error, STATUS_INVALID, "chat template line %u: %s%s%s", line, what, name, after);
    return false;
}

/* ---- symbols ---- */

static struct symbols *symbols_make(struct scoper *scoper, const struct symbols *parent,
                                    struct jinja_function *function)
{
    struct symbols *symbols = arena_take(&scoper->scratch, sizeof(*symbols));
    if (symbols == NULL) {
        no_memory(scoper);
        return NULL;
    }
    symbols->parent = parent;
    symbols->function = function != NULL ? function : parent->function;
    symbols->function_depth = parent == NULL ? 0 : parent->function_depth + (function != NULL);
    return symbols;
}

static struct symbol *find_own(const struct symbols *symbols, uint32_t name)
{
    if (symbols->capacity == 0)
        return NULL;
    uint32_t mask = symbols->capacity * 2 - 1;
    for (uint32_t at = name * 2654435769u & mask; symbols->index[at] != 0; at = (at + 1) & mask)
        if (symbols->items[symbols->index[at] - 1].name == name)
            return &symbols->items[symbols->index[at] - 1];
    return NULL;
}

static struct symbol *find_ref(const struct symbols *symbols, uint32_t name, const struct symbols **where)
{
    for (; symbols != NULL; symbols = symbols->parent) {
        struct symbol *symbol = find_own(symbols, name);
        if (symbol != NULL) {
            *where = symbols;
            return symbol;
        }
    }
    return NULL;
}

static bool symbols_grow(struct scoper *scoper, struct symbols *symbols)
{
    uint32_t capacity = symbols->capacity == 0 ? 8 : symbols->capacity * 2;
    struct symbol *items = arena_array(&scoper->scratch, capacity, sizeof(*items));
    uint32_t *index = arena_array(&scoper->scratch, (size_t)capacity * 2, sizeof(*index));
    uint32_t *stored = arena_array(&scoper->scratch, capacity, sizeof(*stored));
    if (items == NULL || index == NULL || stored == NULL)
        return no_memory(scoper);
    if (symbols->count > 0) {
        memcpy(items, symbols->items, symbols->count * sizeof(*items));
        memcpy(stored, symbols->stored, symbols->stored_count * sizeof(*stored));
    }
    for (uint32_t i = 0; i < symbols->count; i++) {
        uint32_t mask = capacity * 2 - 1, at = items[i].name * 2654435769u & mask;
        while (index[at] != 0)
            at = (at + 1) & mask;
        index[at] = i + 1;
    }
    symbols->items = items;
    symbols->index = index;
    symbols->stored = stored;
    symbols->capacity = capacity;
    return true;
}

static struct symbol *define(struct scoper *scoper, struct symbols *symbols, uint32_t name,
                             enum jinja_load_action action)
{
    struct symbol *symbol = find_own(symbols, name);
    if (symbol == NULL) {
        if (symbols->count == symbols->capacity && !symbols_grow(scoper, symbols))
            return NULL;
        uint32_t mask = symbols->capacity * 2 - 1, at = name * 2654435769u & mask;
        while (symbols->index[at] != 0)
            at = (at + 1) & mask;
        symbol = &symbols->items[symbols->count];
        symbol->name = name;
        symbol->slot = symbols->function->slot_count++;
        symbols->index[at] = ++symbols->count;
    }
    symbol->action = action;
    return symbol;
}

static void mark_stored(struct symbols *symbols, struct symbol *symbol)
{
    if (symbol->stored)
        return;
    symbol->stored = true;
    symbols->stored[symbols->stored_count++] = (uint32_t)(symbol - symbols->items);
}

static void alias_or(const struct symbols *symbols, struct symbol *symbol, enum jinja_load_action otherwise)
{
    const struct symbols *where = NULL;
    const struct symbol *outer = find_ref(symbols->parent, symbol->name, &where);
    symbol->action = outer != NULL ? JINJA_LOAD_ALIAS : otherwise;
    symbol->outer = where;
    symbol->outer_slot = outer != NULL ? outer->slot : 0;
}

static bool store(struct scoper *scoper, struct symbols *symbols, uint32_t name)
{
    struct symbol *symbol = find_own(symbols, name);
    if (symbol == NULL) {
        symbol = define(scoper, symbols, name, JINJA_LOAD_UNDEFINED);
        if (symbol == NULL)
            return false;
        alias_or(symbols, symbol, JINJA_LOAD_UNDEFINED);
    }
    mark_stored(symbols, symbol);
    return true;
}

static bool load(struct scoper *scoper, struct symbols *symbols, uint32_t name)
{
    const struct symbols *where;
    return find_ref(symbols, name, &where) != NULL || define(scoper, symbols, name, JINJA_LOAD_RESOLVE) != NULL;
}

static bool parameter(struct scoper *scoper, struct symbols *symbols, uint32_t name, uint32_t *slot)
{
    struct symbol *symbol = define(scoper, symbols, name, JINJA_LOAD_PARAMETER);
    if (symbol == NULL)
        return false;
    mark_stored(symbols, symbol);
    if (slot != NULL)
        *slot = symbol->slot;
    return true;
}

static bool parameters_of_target(struct scoper *scoper, struct symbols *symbols, const struct jinja_node *target)
{
    if (target->kind == JINJA_NAME)
        return parameter(scoper, symbols, target->variable.name, NULL);
    for (size_t i = 0; i < target->sequence.count; i++)
        if (!parameters_of_target(scoper, symbols, target->sequence.items[i]))
            return false;
    return true;
}

/* ---- first pass: what a frame loads and stores ---- */

static bool analyze_all(struct scoper *scoper, struct symbols *symbols, struct jinja_node *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] != NULL && !analyze(scoper, symbols, nodes[i]))
            return false;
    return true;
}

static bool analyze_block(struct scoper *scoper, struct symbols *symbols, const struct jinja_block *block)
{
    return analyze_all(scoper, symbols, block->nodes, block->count);
}

static bool analyze_call(struct scoper *scoper, struct symbols *symbols, const struct jinja_node *node)
{
    const struct jinja_arguments *arguments = node->call.arguments;
    return analyze_all(scoper, symbols, &node->call.object, 1) &&
           analyze_all(scoper, symbols, arguments->positional, arguments->count) &&
           analyze_all(scoper, symbols, arguments->named_nodes, arguments->named) &&
           analyze_all(scoper, symbols, &arguments->rest, 1) && analyze_all(scoper, symbols, &arguments->rest_named, 1);
}

static bool analyze_if(struct scoper *scoper, struct symbols *symbols, const struct jinja_branches *branches)
{
    if (!analyze(scoper, symbols, branches->tests[0]))
        return false;
    uint32_t before = symbols->stored_count;
    for (size_t i = 0; i < branches->count; i++)
        if ((i > 0 && !analyze(scoper, symbols, branches->tests[i])) ||
            !analyze_block(scoper, symbols, &branches->bodies[i]))
            return false;
    if (!analyze_block(scoper, symbols, &branches->otherwise))
        return false;
    for (uint32_t i = before; i < symbols->stored_count; i++)
        alias_or(symbols, &symbols->items[symbols->stored[i]], JINJA_LOAD_RESOLVE);
    return true;
}

static bool analyze_expression(struct scoper *scoper, struct symbols *symbols, const struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_NAME:
        return node->variable.store ? store(scoper, symbols, node->variable.name)
                                    : load(scoper, symbols, node->variable.name);
    case JINJA_NAMESPACE_REF:
        return load(scoper, symbols, node->variable.name);
    case JINJA_TUPLE_OF:
    case JINJA_LIST_OF:
    case JINJA_DICT_OF:
    case JINJA_CONCAT:
    case JINJA_OUTPUT:
        return analyze_all(scoper, symbols, node->sequence.items, node->sequence.count);
    case JINJA_GETATTR:
        return analyze(scoper, symbols, node->attribute.object);
    case JINJA_GETITEM:
    case JINJA_GETSLICE:
        return analyze(scoper, symbols, node->subscript.object) &&
               analyze_all(scoper, symbols, node->subscript.bounds, 3);
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST:
        return analyze_call(scoper, symbols, node);
    case JINJA_NOT:
    case JINJA_NEGATE:
    case JINJA_POSITIVE:
        return analyze(scoper, symbols, node->pair.a);
    case JINJA_BINARY:
    case JINJA_AND:
    case JINJA_OR:
        return analyze(scoper, symbols, node->pair.a) && analyze(scoper, symbols, node->pair.b);
    case JINJA_COMPARE:
        return analyze(scoper, symbols, node->compare.first) &&
               analyze_all(scoper, symbols, node->compare.operands, node->compare.count);
    case JINJA_COND:
        return analyze(scoper, symbols, node->cond.test) && analyze(scoper, symbols, node->cond.yes) &&
               analyze_all(scoper, symbols, &node->cond.no, 1);
    default:
        return true; /* constants and text */
    }
}

static bool analyze(struct scoper *scoper, struct symbols *symbols, const struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_IF:
        return analyze_if(scoper, symbols, node->branches);
    case JINJA_FOR:
        return analyze(scoper, symbols, node->loop->iterable);
    case JINJA_SET:
        return analyze(scoper, symbols, node->set.value) && analyze(scoper, symbols, node->set.target);
    case JINJA_SET_BLOCK:
        return analyze(scoper, symbols, node->capture->target);
    case JINJA_MACRO_DEF:
        return store(scoper, symbols, node->macro.target->variable.name);
    case JINJA_CALL_BLOCK:
        return analyze(scoper, symbols, node->macro.target);
    case JINJA_FILTER_BLOCK:
        return analyze(scoper, symbols, node->capture->filter);
    case JINJA_WITH:
        return analyze_all(scoper, symbols, node->with->values, node->with->count);
    default:
        return analyze_expression(scoper, symbols, node);
    }
}

/* ---- second pass: slots ---- */

static bool make_scope(struct scoper *scoper, const struct symbols *symbols, struct jinja_scope *scope)
{
    scope->loads = arena_array(&scoper->program->arena, symbols->count, sizeof(*scope->loads));
    if (scope->loads == NULL)
        return no_memory(scoper);
    for (uint32_t i = 0; i < symbols->count; i++) {
        const struct symbol *symbol = &symbols->items[i];
        if (symbol->action == JINJA_LOAD_PARAMETER)
            continue;
        struct jinja_load *one = &scope->loads[scope->count++];
        one->action = symbol->action;
        one->slot = symbol->slot;
        one->name = symbol->name;
        if (symbol->action == JINJA_LOAD_ALIAS) {
            one->hops = symbols->function_depth - symbol->outer->function_depth;
            one->outer = symbol->outer_slot;
        } else if (symbol->action == JINJA_LOAD_RESOLVE) {
            const char *name = scoper->program->names[symbol->name];
            if (jinja_function_is_foreign(name, strlen(name))) {
                scoper->status = error_set(scoper->error, STATUS_UNSUPPORTED,
                                           "the chat template uses '%s', which is not supported", name);
                return false;
            }
        }
    }
    return true;
}

static bool resolve_name(struct scoper *scoper, struct frame frame, struct jinja_node *node)
{
    const struct symbols *where = NULL;
    if (node->kind == JINJA_NAME && node->variable.store && frame.in_for && node->variable.name == scoper->loop_name)
        return fail(scoper, node->line, "Can't assign to special loop variable in for-loop target", "", "");
    /* Only the arguments of a set block's filter can be unknown here: they are in no frame's analysis. */
    if (find_ref(frame.symbols, node->variable.name, &where) == NULL) {
        return fail(scoper, node->line, "the name '", scoper->program->names[node->variable.name],
                    "' is not known in this place");
    }
    const struct symbol *symbol = find_own(where, node->variable.name);
    node->variable.hops = frame.symbols->function_depth - where->function_depth;
    node->variable.slot = symbol->slot;
    return true;
}

static bool resolve_all(struct scoper *scoper, struct frame frame, struct jinja_node *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] != NULL && !resolve(scoper, frame, nodes[i]))
            return false;
    return true;
}

static bool resolve_block(struct scoper *scoper, struct frame frame, const struct jinja_block *block)
{
    return resolve_all(scoper, frame, block->nodes, block->count);
}

static bool resolve_call(struct scoper *scoper, struct frame frame, struct jinja_node *node)
{
    const struct jinja_arguments *arguments = node->call.arguments;
    if (node->kind != JINJA_CALL && node->call.target == NULL && !frame.soft)
        return fail(scoper, node->line, node->kind == JINJA_FILTER ? "No filter named '" : "No test named '",
                    node->call.name->bytes, "'.");
    return resolve_all(scoper, frame, &node->call.object, 1) &&
           resolve_all(scoper, frame, arguments->positional, arguments->count) &&
           resolve_all(scoper, frame, arguments->named_nodes, arguments->named) &&
           resolve_all(scoper, frame, &arguments->rest, 1) && resolve_all(scoper, frame, &arguments->rest_named, 1);
}

static bool resolve_for(struct scoper *scoper, struct frame frame, struct jinja_for *loop)
{
    struct symbols *body = symbols_make(scoper, frame.symbols, NULL);
    struct symbols *otherwise = symbols_make(scoper, frame.symbols, NULL);
    struct symbols *test = symbols_make(scoper, frame.symbols, NULL);
    if (body == NULL || otherwise == NULL || test == NULL)
        return false;
    loop->uses_loop = jinja_block_reads(&loop->body, scoper->loop_name);
    if (loop->uses_loop && !parameter(scoper, body, scoper->loop_name, &loop->loop_slot))
        return false;
    if (!parameters_of_target(scoper, body, loop->target) || !analyze_block(scoper, body, &loop->body) ||
        !make_scope(scoper, body, &loop->body_scope) || !analyze_block(scoper, otherwise, &loop->otherwise) ||
        !make_scope(scoper, otherwise, &loop->else_scope))
        return false;
    struct frame inner = {.symbols = body, .in_for = true, .breakable = true};
    if (loop->test != NULL) {
        struct frame tested = {.symbols = test, .in_for = true};
        if (!parameters_of_target(scoper, test, loop->test_target) || !analyze(scoper, test, loop->test) ||
            !make_scope(scoper, test, &loop->test_scope) || !resolve(scoper, tested, loop->test_target) ||
            !resolve(scoper, tested, loop->test))
            return false;
    }
    struct frame outer = frame;
    outer.in_for = true;
    if (!resolve(scoper, inner, loop->target) || !resolve(scoper, outer, loop->iterable) ||
        !resolve_block(scoper, inner, &loop->body))
        return false;
    struct frame after = {.symbols = otherwise, .in_for = true, .breakable = frame.breakable};
    return resolve_block(scoper, after, &loop->otherwise);
}

static bool resolve_function(struct scoper *scoper, struct frame frame, struct jinja_function *function)
{
    struct symbols *symbols = symbols_make(scoper, frame.symbols, function);
    if (symbols == NULL)
        return false;
    for (size_t i = 0; i < function->parameter_count; i++)
        if (!parameter(scoper, symbols, function->parameters[i]->variable.name, NULL))
            return false;
    if (!analyze_all(scoper, symbols, function->defaults, function->parameter_count) ||
        !analyze_block(scoper, symbols, &function->body))
        return false;
    bool explicit_caller = false, explicit_kwargs = false, explicit_varargs = false;
    for (size_t i = 0; i < function->parameter_count; i++) {
        uint32_t name = function->parameters[i]->variable.name;
        explicit_caller |= name == scoper->caller_name;
        explicit_kwargs |= name == scoper->kwargs_name;
        explicit_varargs |= name == scoper->varargs_name;
        if (name == scoper->caller_name && function->defaults[i] == NULL &&
            jinja_block_reads(&function->body, scoper->caller_name))
            return fail(scoper, function->parameters[i]->line,
                        "the special \"caller\" argument must be omitted or be given a default", "", "");
    }
    function->uses_caller = !explicit_caller && jinja_block_reads(&function->body, scoper->caller_name);
    function->uses_kwargs = !explicit_kwargs && jinja_block_reads(&function->body, scoper->kwargs_name);
    function->uses_varargs = !explicit_varargs && jinja_block_reads(&function->body, scoper->varargs_name);
    if ((function->uses_caller && !parameter(scoper, symbols, scoper->caller_name, &function->caller_slot)) ||
        (function->uses_kwargs && !parameter(scoper, symbols, scoper->kwargs_name, &function->kwargs_slot)) ||
        (function->uses_varargs && !parameter(scoper, symbols, scoper->varargs_name, &function->varargs_slot)))
        return false;
    struct frame inner = {.symbols = symbols, .in_for = frame.in_for};
    struct frame names = {.symbols = symbols};
    return make_scope(scoper, symbols, &function->scope) &&
           resolve_all(scoper, names, function->parameters, function->parameter_count) &&
           resolve_all(scoper, inner, function->defaults, function->parameter_count) &&
           resolve_block(scoper, inner, &function->body);
}

static bool resolve_capture(struct scoper *scoper, struct frame frame, struct jinja_node *node)
{
    struct jinja_capture *capture = node->capture;
    struct symbols *symbols = symbols_make(scoper, frame.symbols, NULL);
    if (symbols == NULL || !analyze_block(scoper, symbols, &capture->body) ||
        !analyze_all(scoper, symbols, &capture->filter, 1) || !make_scope(scoper, symbols, &capture->scope))
        return false;
    bool breakable = frame.breakable && node->kind != JINJA_GENERATION;
    struct frame inner = {.symbols = symbols, .in_for = frame.in_for, .breakable = breakable};
    return resolve_all(scoper, frame, &capture->target, 1) && resolve_block(scoper, inner, &capture->body) &&
           resolve_all(scoper, inner, &capture->filter, 1);
}

static bool resolve_with(struct scoper *scoper, struct frame frame, struct jinja_with *with)
{
    struct symbols *symbols = symbols_make(scoper, frame.symbols, NULL);
    if (symbols == NULL)
        return false;
    for (size_t i = 0; i < with->count; i++)
        if (!parameters_of_target(scoper, symbols, with->targets[i]))
            return false;
    struct frame inner = {.symbols = symbols, .in_for = frame.in_for, .breakable = frame.breakable};
    return analyze_block(scoper, symbols, &with->body) && make_scope(scoper, symbols, &with->scope) &&
           resolve_all(scoper, inner, with->targets, with->count) &&
           resolve_all(scoper, frame, with->values, with->count) && resolve_block(scoper, inner, &with->body);
}

static bool resolve_if(struct scoper *scoper, struct frame frame, const struct jinja_branches *branches)
{
    frame.soft = true;
    for (size_t i = 0; i < branches->count; i++)
        if (!resolve(scoper, frame, branches->tests[i]) || !resolve_block(scoper, frame, &branches->bodies[i]))
            return false;
    return resolve_block(scoper, frame, &branches->otherwise);
}

static bool resolve_expression(struct scoper *scoper, struct frame frame, struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_NAME:
    case JINJA_NAMESPACE_REF:
        return resolve_name(scoper, frame, node);
    case JINJA_TUPLE_OF:
    case JINJA_LIST_OF:
    case JINJA_DICT_OF:
    case JINJA_CONCAT:
    case JINJA_OUTPUT:
        return resolve_all(scoper, frame, node->sequence.items, node->sequence.count);
    case JINJA_GETATTR:
        return resolve(scoper, frame, node->attribute.object);
    case JINJA_GETITEM:
    case JINJA_GETSLICE:
        return resolve(scoper, frame, node->subscript.object) && resolve_all(scoper, frame, node->subscript.bounds, 3);
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST:
        return resolve_call(scoper, frame, node);
    case JINJA_NOT:
    case JINJA_NEGATE:
    case JINJA_POSITIVE:
    case JINJA_BINARY:
    case JINJA_AND:
    case JINJA_OR:
        return resolve(scoper, frame, node->pair.a) && resolve_all(scoper, frame, &node->pair.b, 1);
    case JINJA_COMPARE:
        return resolve(scoper, frame, node->compare.first) &&
               resolve_all(scoper, frame, node->compare.operands, node->compare.count);
    case JINJA_COND:
        frame.soft = true;
        return resolve(scoper, frame, node->cond.test) && resolve(scoper, frame, node->cond.yes) &&
               resolve_all(scoper, frame, &node->cond.no, 1);
    default:
        return true;
    }
}

static bool resolve(struct scoper *scoper, struct frame frame, struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_IF:
        return resolve_if(scoper, frame, node->branches);
    case JINJA_FOR:
        return resolve_for(scoper, frame, node->loop);
    case JINJA_SET:
        return resolve(scoper, frame, node->set.target) && resolve(scoper, frame, node->set.value);
    case JINJA_SET_BLOCK:
    case JINJA_FILTER_BLOCK:
    case JINJA_GENERATION:
        return resolve_capture(scoper, frame, node);
    case JINJA_MACRO_DEF:
        return resolve_function(scoper, frame, node->macro.function) && resolve(scoper, frame, node->macro.target);
    case JINJA_CALL_BLOCK:
        return resolve_function(scoper, frame, node->macro.function) && resolve(scoper, frame, node->macro.target);
    case JINJA_WITH:
        return resolve_with(scoper, frame, node->with);
    case JINJA_BREAK_LOOP:
    case JINJA_CONTINUE_LOOP:
        return frame.breakable || fail(scoper, node->line, "break or continue outside of a loop", "", "");
    default:
        return resolve_expression(scoper, frame, node);
    }
}

static uint32_t name_of(const struct jinja_program *program, const char *text)
{
    for (uint32_t i = 0; i < program->name_count; i++)
        if (strcmp(program->names[i], text) == 0)
            return i;
    return UINT32_MAX;
}

enum status jinja_scope_program(struct jinja_program *program, struct error *error)
{
    struct scoper scoper = {.program = program,
                            .error = error,
                            .loop_name = name_of(program, "loop"),
                            .caller_name = name_of(program, "caller"),
                            .kwargs_name = name_of(program, "kwargs"),
                            .varargs_name = name_of(program, "varargs")};
    scoper.scratch.limit_bytes = (size_t)256 << 20;
    struct symbols *symbols = symbols_make(&scoper, NULL, &program->root);
    struct frame frame = {.symbols = symbols};
    if (symbols != NULL && analyze_block(&scoper, symbols, &program->root.body) &&
        make_scope(&scoper, symbols, &program->root.scope))
        resolve_block(&scoper, frame, &program->root.body);
    arena_free(&scoper.scratch);
    return scoper.status;
}
