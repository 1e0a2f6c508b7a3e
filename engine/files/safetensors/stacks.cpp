#include "engine/files/safetensors/stacks.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/core/error.h"

namespace ft {
namespace {

struct Fit {
  std::string tensor;
  std::int64_t number;  // of the matrix in it
};

// Returns the expert's number and the length of the name before the pattern, if a name ends like `pattern`
// with a number for %.
std::optional<std::pair<std::size_t, std::int64_t>> match(std::string_view name, std::string_view pattern) {
  const std::size_t gap = pattern.find('%');
  const std::string_view before = pattern.substr(0, gap), after = pattern.substr(gap + 1);
  if (!name.ends_with(after)) return std::nullopt;
  const std::size_t end = name.size() - after.size(),
                    begin = name.find_last_not_of("0123456789", end - 1) + 1;
  if (begin == end || !name.substr(0, begin).ends_with(before)) return std::nullopt;
  std::int64_t number = 0;
  std::from_chars(name.data() + begin, name.data() + end, number);
  return std::pair{begin - before.size(), number};
}

std::optional<Fit> fit(const std::string& name, const std::vector<StoredStack>& stacks) {
  for (const StoredStack& stack : stacks)
    for (std::size_t i = 0; i < stack.to.size(); ++i) {
      if (stack.to[i].find('%') == std::string::npos) continue;
      if (const auto found = match(name, stack.to[i]))
        return Fit{name.substr(0, found->first) + stack.from,
                   found->second * std::ssize(stack.to) + static_cast<std::int64_t>(i)};
    }
  return std::nullopt;
}

// Returns the number of matrices that a stack, `tensor`, has of each expert.
std::int64_t matrices_of(const std::string& tensor, const std::vector<StoredStack>& stacks) {
  for (const StoredStack& stack : stacks)
    if (tensor.ends_with(stack.from)) return std::ssize(stack.to);
  return 1;
}

}  // namespace

Stacks::Stacks(const std::vector<TensorSpec>& tensors, const std::vector<StoredStack>& stacks) {
  std::map<std::string, std::map<std::int64_t, TensorSpec>> stacked;
  std::vector<std::string> order;
  for (const TensorSpec& t : tensors) {
    const std::optional<Fit> in = fit(t.name, stacks);
    const std::string name = in ? in->tensor : t.name;
    if (!stacked.contains(name)) order.push_back(name);
    stacked[name][in ? in->number : 0] = t;
  }
  for (const std::string& name : order) {
    const auto& matrices = stacked[name];
    std::vector<TensorSpec>& parts = parts_[name];
    std::int64_t first = 0;
    for (const auto& [number, t] : matrices) {
      require(number == std::ssize(parts), "a stack of experts without one of them");
      parts.push_back(t);
      places_[t.name] = {name, first};
      first += t.shape.numel();
    }
    TensorSpec whole = parts.front();
    if (whole.name != name) {
      const std::int64_t each = matrices_of(name, stacks);
      whole.shape = {std::ssize(parts) / each, each * whole.shape[0], whole.shape[1]};
      whole.name = name;
    }
    tensors_.push_back(whole);
  }
}

Stacks::Place Stacks::place_of(const std::string& name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? Place{name} : at->second;
}

}  // namespace ft
