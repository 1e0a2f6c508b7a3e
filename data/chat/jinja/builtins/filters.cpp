#include "data/chat/jinja/builtins/filters.h"

namespace ft::jinja {

Filter filter_by_name(std::string_view name) {
  for (const auto find : {text_filter, number_filter, list_filter, selecting_filter})
    if (const Filter f = find(name)) return f;
  return nullptr;
}

}  // namespace ft::jinja
