// Checks of invariants that no user input can break. An InternalError is a bug in ft.
#pragma once
#include <source_location>
#include <stdexcept>

namespace ft {

struct InternalError : std::logic_error {
  using logic_error::logic_error;
};

[[noreturn]] void throw_internal_error(const char* what, const std::source_location& at);

// States an invariant. Throws InternalError with the source location if it does not hold.
inline void require(bool ok, const char* what, std::source_location at = std::source_location::current()) {
  if (!ok) throw_internal_error(what, at);
}

}  // namespace ft
