/* What Python's str knows about characters. */
#ifndef MODEL_TEXT_JINJA_UNICODE_H
#define MODEL_TEXT_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool jinja_is_space(uint32_t c);     /* str.isspace, and \s of a Python regular expression */
bool jinja_is_line_end(uint32_t c);  /* str.splitlines */
bool jinja_is_printable(uint32_t c); /* repr shows it as it is */
bool jinja_is_word(uint32_t c);      /* part of an identifier */
bool jinja_is_alpha(uint32_t c);
bool jinja_is_decimal(uint32_t c);
bool jinja_is_digit(uint32_t c);
bool jinja_is_numeric(uint32_t c);
bool jinja_is_upper(uint32_t c);
bool jinja_is_lower(uint32_t c);
bool jinja_is_title(uint32_t c);
bool jinja_is_cased(uint32_t c);
bool jinja_is_case_ignorable(uint32_t c);
/* Full case mappings of one character: 1 to 3 characters; returns how many. */
size_t jinja_to_upper(uint32_t c, uint32_t out[3]);
size_t jinja_to_lower(uint32_t c, uint32_t out[3]);
size_t jinja_to_title(uint32_t c, uint32_t out[3]);

#endif
