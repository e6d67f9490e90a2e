/* The filters of jinja2/filters.py, by what they work on. The table is in filters.c. */
#ifndef MODEL_TEXT_JINJA_FILTERS_H
#define MODEL_TEXT_JINJA_FILTERS_H

#include "model/text/jinja/run.h"

#define JINJA_FILTER(name)                                                                        \
    bool name(struct jinja_run *run, const struct jinja_filter *filter, struct jinja_value value, \
              const struct jinja_args *args, struct jinja_value *out)
#define JINJA_GENERATOR(name) int name(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_value *out)

/* filters_text.c */
JINJA_FILTER(jinja_filter_case); /* detail: enum jinja_case */
JINJA_FILTER(jinja_filter_center);
JINJA_FILTER(jinja_filter_escape);
JINJA_FILTER(jinja_filter_format);
JINJA_FILTER(jinja_filter_indent);
JINJA_FILTER(jinja_filter_replace);
JINJA_FILTER(jinja_filter_safe);
JINJA_FILTER(jinja_filter_string);
JINJA_FILTER(jinja_filter_tojson);
JINJA_FILTER(jinja_filter_trim);
JINJA_FILTER(jinja_filter_truncate);
JINJA_FILTER(jinja_filter_wordcount);

/* filters_number.c */
JINJA_FILTER(jinja_filter_abs);
JINJA_FILTER(jinja_filter_float);
JINJA_FILTER(jinja_filter_int);
JINJA_FILTER(jinja_filter_round);

/* filters_sequence.c */
JINJA_FILTER(jinja_filter_default);
JINJA_FILTER(jinja_filter_dictsort);
JINJA_FILTER(jinja_filter_first);
JINJA_FILTER(jinja_filter_join);
JINJA_FILTER(jinja_filter_last);
JINJA_FILTER(jinja_filter_length);
JINJA_FILTER(jinja_filter_list);
JINJA_FILTER(jinja_filter_extreme); /* detail: 0 min, 1 max */
JINJA_FILTER(jinja_filter_reverse);
JINJA_FILTER(jinja_filter_sort);
JINJA_FILTER(jinja_filter_sum);

/* filters_lazy.c: generators */
JINJA_GENERATOR(jinja_next_batch);
JINJA_GENERATOR(jinja_next_items);
JINJA_GENERATOR(jinja_next_map);
JINJA_GENERATOR(jinja_next_select); /* detail: bit 0 reject, bit 1 by attribute */
JINJA_GENERATOR(jinja_next_slice);
JINJA_GENERATOR(jinja_next_unique);

/* lower() of strings, everything else as it is: how sorting ignores case. */
bool jinja_ignore_case(struct jinja_run *run, bool case_sensitive, struct jinja_value value, struct jinja_value *out);
bool jinja_flag(struct jinja_value given, bool otherwise); /* a parameter's truth */

#endif
