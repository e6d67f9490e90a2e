/* Statements: output, branches, assignments, captured blocks, macros. Loops are in loop.c. */
#include "model/text/jinja/run.h"

bool jinja_scope_enter(struct jinja_run *run, const struct jinja_scope *scope)
{
    for (size_t i = 0; i < scope->count; i++) {
        const struct jinja_load *load = &scope->loads[i];
        struct jinja_value *slot = &run->activation->slots[load->slot];
        struct jinja_activation *outer = run->activation;
        switch (load->action) {
        case JINJA_LOAD_RESOLVE:
            slot->kind = JINJA_MISSING;
            if (!jinja_resolve(run, load->name, slot))
                return false;
            break;
        case JINJA_LOAD_ALIAS:
            for (uint32_t hop = 0; hop < load->hops; hop++)
                outer = outer->closure;
            *slot = outer->slots[load->outer];
            break;
        case JINJA_LOAD_UNDEFINED:
            slot->kind = JINJA_MISSING;
            break;
        case JINJA_LOAD_PARAMETER:
            break;
        }
    }
    return true;
}

/* ---- assignment ---- */

static bool assign_tuple(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value)
{
    struct jinja_iterator *iterator;
    struct jinja_value item;
    size_t want = target->sequence.count;
    if (value.kind != JINJA_UNDEFINED && !jinja_is_iterable(value))
        return jinja_fail(run, "cannot unpack non-iterable %s object", jinja_type_name(value));
    if (!jinja_iterate(run, value, &iterator))
        return false;
    struct jinja_value *items = jinja_take_array(run, want, sizeof(*items));
    if (items == NULL)
        return false;
    for (size_t i = 0; i < want; i++) {
        int more = jinja_next(run, iterator, &items[i]);
        if (more < 0)
            return false;
        if (more == 0)
            return jinja_fail(run, "not enough values to unpack (expected %zu, got %zu)", want, i);
    }
    int more = jinja_next(run, iterator, &item);
    if (more != 0)
        return more > 0 && jinja_fail(run, "too many values to unpack (expected %zu)", want);
    for (size_t i = 0; i < want; i++)
        if (!jinja_assign(run, target->sequence.items[i], items[i]))
            return false;
    return true;
}

bool jinja_assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value)
{
    if (target->kind == JINJA_NAME) {
        *jinja_slot(run, target) = value;
        return true;
    }
    if (target->kind == JINJA_TUPLE_OF) {
        if (!jinja_enter(run))
            return false;
        bool done = assign_tuple(run, target, value);
        jinja_leave(run);
        return done;
    }
    struct jinja_value space = *jinja_slot(run, target);
    if (space.kind != JINJA_NAMESPACE)
        return jinja_fail(run, "cannot assign attribute on non-namespace object");
    if (target->variable.attribute->size > 0 && target->variable.attribute->bytes[0] == '_')
        return jinja_fail(run,
                          "Chat templates cannot store underscore-prefixed attributes on a namespace, but got "
                          "'%s'. Please rename the attribute.",
                          target->variable.attribute->bytes);
    return jinja_dict_put(run, space.dict, jinja_from_string(target->variable.attribute), value);
}

/* Jinja looks at the namespaces of a target before it evaluates the value. */
static bool check_namespaces(struct jinja_run *run, const struct jinja_node *target)
{
    if (target->kind == JINJA_TUPLE_OF) {
        for (size_t i = 0; i < target->sequence.count; i++)
            if (!check_namespaces(run, target->sequence.items[i]))
                return false;
        return true;
    }
    if (target->kind == JINJA_NAME || jinja_slot(run, target)->kind == JINJA_NAMESPACE)
        return true;
    return jinja_fail(run, "cannot assign attribute on non-namespace object");
}

static bool execute_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value;
    return check_namespaces(run, node->set.target) && jinja_eval(run, node->set.value, &value) &&
           jinja_assign(run, node->set.target, value);
}

/* ---- captured text ---- */

/* The body's output as a string in *out. */
static enum jinja_flow capture(struct jinja_run *run, const struct jinja_block *body, struct jinja_value *out)
{
    struct jinja_pieces *outer = run->out, *pieces = jinja_take(run, sizeof(*pieces));
    if (pieces == NULL)
        return JINJA_FAILED;
    run->out = pieces;
    enum jinja_flow flow = jinja_execute(run, body);
    run->out = outer;
    if (flow != JINJA_NEXT)
        return flow;
    *out = jinja_from_string(jinja_string_view(run, pieces));
    return out->string == NULL ? JINJA_FAILED : JINJA_NEXT;
}

static enum jinja_flow execute_captured(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_capture *block = node->capture;
    struct jinja_value value;
    if (!jinja_scope_enter(run, &block->scope))
        return JINJA_FAILED;
    if (node->kind == JINJA_GENERATION)
        return jinja_execute(run, &block->body);
    enum jinja_flow flow = capture(run, &block->body, &value);
    if (flow != JINJA_NEXT)
        return flow;
    run->block_text = value;
    if (block->filter != NULL && !jinja_eval(run, block->filter, &value))
        return JINJA_FAILED;
    bool done = node->kind == JINJA_SET_BLOCK ? jinja_assign(run, block->target, value)
                                              : jinja_pieces_value(run, run->out, value);
    return done ? JINJA_NEXT : JINJA_FAILED;
}

static enum jinja_flow execute_with(struct jinja_run *run, const struct jinja_with *with)
{
    if (!jinja_scope_enter(run, &with->scope))
        return JINJA_FAILED;
    for (size_t i = 0; i < with->count; i++) {
        struct jinja_value value;
        if (!jinja_eval(run, with->values[i], &value) || !jinja_assign(run, with->targets[i], value))
            return JINJA_FAILED;
    }
    return jinja_execute(run, &with->body);
}

/* ---- macros ---- */

static struct jinja_value make_macro(struct jinja_run *run, const struct jinja_function *function)
{
    struct jinja_macro *macro = jinja_take(run, sizeof(*macro));
    if (macro == NULL)
        return jinja_none();
    macro->function = function;
    macro->closure = run->activation;
    return (struct jinja_value){.kind = JINJA_MACRO, .macro = macro};
}

static bool execute_call_block(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_node *call = node->macro.target;
    struct jinja_value caller = make_macro(run, node->macro.function), callee, out;
    struct jinja_args args;
    if (caller.kind != JINJA_MACRO || !jinja_eval(run, call->call.object, &callee) ||
        !jinja_eval_args(run, call->call.arguments, &args))
        return false;
    struct jinja_value *names = jinja_take_array(run, args.named + 1, sizeof(*names));
    struct jinja_value *values = jinja_take_array(run, args.named + 1, sizeof(*values));
    if (names == NULL || values == NULL)
        return false;
    for (size_t i = 0; i < args.named; i++) {
        names[i] = args.names[i];
        values[i] = args.named_values[i];
    }
    names[args.named] = jinja_from_string(jinja_string_of(run, "caller", 6, JINJA_TEMPLATE_ORIGIN));
    values[args.named] = caller;
    args.names = names;
    args.named_values = values;
    args.named++;
    return names[args.named - 1].string != NULL && jinja_call(run, callee, &args, &out) &&
           jinja_pieces_value(run, run->out, out);
}

/* The place of a named argument, or args->named. */
static size_t find_named(struct jinja_run *run, const struct jinja_args *args, const char *name)
{
    size_t i = 0;
    while (i < args->named && !jinja_string_is(run, args->names[i].string, name))
        i++;
    return i;
}

static bool macro_parameters(struct jinja_run *run, const struct jinja_function *function,
                             const struct jinja_args *args, bool *used)
{
    for (size_t i = 0; i < function->parameter_count; i++) {
        const struct jinja_node *parameter = function->parameters[i];
        const char *name = run->program->names[parameter->variable.name];
        struct jinja_value *slot = jinja_slot(run, parameter);
        *slot = (struct jinja_value){.kind = JINJA_MISSING};
        if (i < args->count) {
            *slot = args->values[i];
            continue;
        }
        size_t named = find_named(run, args, name);
        if (named < args->named) {
            *slot = args->named_values[named];
            used[named] = true;
        }
    }
    for (size_t i = 0; i < function->parameter_count; i++) {
        const struct jinja_node *parameter = function->parameters[i];
        struct jinja_value value;
        if (jinja_slot(run, parameter)->kind != JINJA_MISSING)
            continue;
        if (function->defaults[i] == NULL)
            value = jinja_undefined(JINJA_REASON_PARAMETER, run->program->names[parameter->variable.name], 0);
        else if (!jinja_eval(run, function->defaults[i], &value))
            return false;
        *jinja_slot(run, parameter) = value;
    }
    return true;
}

/* The special names a macro's body may read, and what is left over otherwise. */
static bool macro_rest(struct jinja_run *run, const struct jinja_function *function, const struct jinja_args *args,
                       bool *used)
{
    struct jinja_value *slots = run->activation->slots;
    if (function->uses_caller) {
        size_t named = find_named(run, args, "caller");
        slots[function->caller_slot] = jinja_undefined(JINJA_REASON_HINT, "No caller defined", 0);
        if (named < args->named) {
            slots[function->caller_slot] = args->named_values[named];
            used[named] = true;
        }
    }
    struct jinja_dict *rest = function->uses_kwargs ? jinja_dict_make(run, args->named) : NULL;
    if (function->uses_kwargs && rest == NULL)
        return false;
    for (size_t i = 0; i < args->named; i++) {
        if (used[i])
            continue;
        if (!function->uses_kwargs)
            return jinja_fail(run, "macro '%s' takes no keyword argument '%.100s'",
                              function->name == NULL ? "caller" : function->name,
                              jinja_string_bytes(run, args->names[i].string));
        if (!jinja_dict_put(run, rest, args->names[i], args->named_values[i]))
            return false;
    }
    if (function->uses_kwargs)
        slots[function->kwargs_slot] = (struct jinja_value){.kind = JINJA_DICT, .dict = rest};
    size_t taken = args->count < function->parameter_count ? args->count : function->parameter_count;
    if (function->uses_varargs)
        return jinja_list_make(run, JINJA_TUPLE, taken < args->count ? args->values + taken : NULL, args->count - taken,
                               &slots[function->varargs_slot]);
    if (args->count > function->parameter_count)
        return jinja_fail(run, "macro '%s' takes not more than %zu argument(s)",
                          function->name == NULL ? "caller" : function->name, function->parameter_count);
    return true;
}

bool jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro, const struct jinja_args *args,
                      struct jinja_value *out)
{
    const struct jinja_function *function = macro->function;
    struct jinja_activation *activation = jinja_take(run, sizeof(*activation)), *outer = run->activation;
    bool *used = jinja_take_array(run, args->named + 1, sizeof(*used));
    if (activation == NULL || used == NULL)
        return false;
    if (run->calls_left == 0)
        return jinja_fail_status(run, STATUS_TOO_LARGE, "chat template line %u: macro calls are nested too deep",
                                 run->line);
    activation->closure = macro->closure;
    activation->slots = jinja_take_array(run, function->slot_count, sizeof(*activation->slots));
    if (activation->slots == NULL)
        return false;
    run->calls_left--;
    run->activation = activation;
    bool done = jinja_scope_enter(run, &function->scope) && macro_parameters(run, function, args, used) &&
                macro_rest(run, function, args, used) && capture(run, &function->body, out) == JINJA_NEXT;
    run->activation = outer;
    run->calls_left++;
    return done;
}

/* ---- the rest ---- */

static enum jinja_flow execute_if(struct jinja_run *run, const struct jinja_branches *branches)
{
    for (size_t i = 0; i < branches->count; i++) {
        struct jinja_value test;
        if (!jinja_eval(run, branches->tests[i], &test))
            return JINJA_FAILED;
        if (jinja_truth(test))
            return jinja_execute(run, &branches->bodies[i]);
    }
    return jinja_execute(run, &branches->otherwise);
}

static bool execute_output(struct jinja_run *run, const struct jinja_node *node)
{
    for (size_t i = 0; i < node->sequence.count; i++) {
        struct jinja_value value;
        if (!jinja_eval(run, node->sequence.items[i], &value) || !jinja_pieces_value(run, run->out, value))
            return false;
    }
    return true;
}

static enum jinja_flow execute_one(struct jinja_run *run, const struct jinja_node *node)
{
    enum jinja_flow flow;
    bool done = true;
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_DATA:
        done = jinja_pieces_add(run, run->out, node->data.bytes, node->data.size, JINJA_TEMPLATE_ORIGIN);
        break;
    case JINJA_OUTPUT:
        done = execute_output(run, node);
        break;
    case JINJA_IF:
        return execute_if(run, node->branches);
    case JINJA_FOR:
        return jinja_execute_for(run, node, &flow) ? flow : JINJA_FAILED;
    case JINJA_SET:
        done = execute_set(run, node);
        break;
    case JINJA_SET_BLOCK:
    case JINJA_FILTER_BLOCK:
    case JINJA_GENERATION:
        return execute_captured(run, node);
    case JINJA_MACRO_DEF: {
        struct jinja_value macro = make_macro(run, node->macro.function);
        done = macro.kind == JINJA_MACRO && jinja_assign(run, node->macro.target, macro);
        break;
    }
    case JINJA_CALL_BLOCK:
        done = execute_call_block(run, node);
        break;
    case JINJA_WITH:
        return execute_with(run, node->with);
    case JINJA_BREAK_LOOP:
        return JINJA_BREAK;
    case JINJA_CONTINUE_LOOP:
        return JINJA_CONTINUE;
    default:
        done = jinja_fail_status(run, STATUS_INTERNAL, "a chat template's expression was read as a statement");
    }
    return done ? JINJA_NEXT : JINJA_FAILED;
}

enum jinja_flow jinja_execute(struct jinja_run *run, const struct jinja_block *block)
{
    enum jinja_flow flow = JINJA_NEXT;
    if (!jinja_enter(run))
        return JINJA_FAILED;
    for (size_t i = 0; flow == JINJA_NEXT && i < block->count; i++) {
        const struct jinja_node *node = block->nodes[i];
        run->line = node->line;
        flow = jinja_step(run, 1) ? execute_one(run, node) : JINJA_FAILED;
    }
    jinja_leave(run);
    return flow;
}
