/* Which of the special names (loop, caller, kwargs, varargs) a body reads before it assigns them: jinja2's
 * find_undeclared. */
#include "model/text/jinja/ast.h"

struct special {
    uint32_t name;
    bool found, hidden; /* hidden: assigned before it is read */
};

static void seek(const struct jinja_node *node, struct special *special);

static void seek_all(struct jinja_node *const *nodes, size_t count, struct special *special)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] != NULL)
            seek(nodes[i], special);
}

static void seek_block(const struct jinja_block *block, struct special *special)
{
    seek_all(block->nodes, block->count, special);
}

static void seek_function(const struct jinja_function *function, struct special *special)
{
    seek_all(function->parameters, function->parameter_count, special);
    seek_all(function->defaults, function->parameter_count, special);
    seek_block(&function->body, special);
}

static void seek_expression(const struct jinja_node *node, struct special *special)
{
    const struct jinja_arguments *arguments;
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_NAME:
        if (node->variable.name == special->name && node->variable.store)
            special->hidden = true;
        else if (node->variable.name == special->name && !special->hidden)
            special->found = true;
        break;
    case JINJA_TUPLE_OF:
    case JINJA_LIST_OF:
    case JINJA_DICT_OF:
    case JINJA_CONCAT:
    case JINJA_OUTPUT:
        seek_all(node->sequence.items, node->sequence.count, special);
        break;
    case JINJA_GETATTR:
        seek(node->attribute.object, special);
        break;
    case JINJA_GETITEM:
    case JINJA_GETSLICE:
        seek(node->subscript.object, special);
        seek_all(node->subscript.bounds, 3, special);
        break;
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST:
        arguments = node->call.arguments;
        seek_all(&node->call.object, 1, special);
        seek_all(arguments->positional, arguments->count, special);
        seek_all(arguments->named_nodes, arguments->named, special);
        seek_all(&arguments->rest, 1, special);
        seek_all(&arguments->rest_named, 1, special);
        break;
    case JINJA_NOT:
    case JINJA_NEGATE:
    case JINJA_POSITIVE:
    case JINJA_BINARY:
    case JINJA_AND:
    case JINJA_OR:
        seek(node->pair.a, special);
        seek_all(&node->pair.b, 1, special);
        break;
    case JINJA_COMPARE:
        seek(node->compare.first, special);
        seek_all(node->compare.operands, node->compare.count, special);
        break;
    case JINJA_COND:
        seek(node->cond.test, special);
        seek(node->cond.yes, special);
        seek_all(&node->cond.no, 1, special);
        break;
    default:
        break;
    }
}

static void seek(const struct jinja_node *node, struct special *special)
{
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_IF:
        for (size_t i = 0; i < node->branches->count; i++) {
            seek(node->branches->tests[i], special);
            seek_block(&node->branches->bodies[i], special);
        }
        seek_block(&node->branches->otherwise, special);
        break;
    case JINJA_FOR:
        seek(node->loop->target, special);
        seek(node->loop->iterable, special);
        seek_block(&node->loop->body, special);
        seek_block(&node->loop->otherwise, special);
        seek_all(&node->loop->test, 1, special);
        break;
    case JINJA_SET:
        seek(node->set.target, special);
        seek(node->set.value, special);
        break;
    case JINJA_SET_BLOCK:
    case JINJA_FILTER_BLOCK:
    case JINJA_GENERATION:
        seek_all(&node->capture->target, 1, special);
        seek_all(&node->capture->filter, 1, special);
        seek_block(&node->capture->body, special);
        break;
    case JINJA_MACRO_DEF:
        seek_function(node->macro.function, special);
        break;
    case JINJA_CALL_BLOCK:
        seek(node->macro.target, special);
        seek_function(node->macro.function, special);
        break;
    case JINJA_WITH:
        seek_all(node->with->targets, node->with->count, special);
        seek_all(node->with->values, node->with->count, special);
        seek_block(&node->with->body, special);
        break;
    default:
        seek_expression(node, special);
    }
}

bool jinja_block_reads(const struct jinja_block *body, uint32_t name)
{
    struct special special = {.name = name};
    if (name != UINT32_MAX)
        seek_block(body, &special);
    return special.found;
}
