#include "engine/ranks/together.h"

#include <exception>
#include <span>

#include "engine/core/error.h"

namespace ft {

std::vector<std::uint8_t> asked(Communicator& comm, bool yes) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(comm.size()));
  all[static_cast<std::size_t>(comm.rank())] = yes ? 1 : 0;
  comm.all_gather_host(std::as_writable_bytes(std::span(all)));
  return all;
}

void together(Communicator& comm, const std::string& what, const std::function<void()>& part) {
  if (comm.size() == 1) return part();
  std::exception_ptr thrown;
  try {
    part();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::vector<std::uint8_t> failed = asked(comm, thrown != nullptr);
  if (thrown) std::rethrow_exception(thrown);
  for (std::size_t r = 0; r < failed.size(); ++r)
    if (failed[r] > 0)
      throw UserError(Exit::peer_lost, str("rank ", r, " could not ", what, "; its message says why"));
}

std::string shared(Communicator& comm, std::string text) {
  std::uint64_t size = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  comm.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

}  // namespace ft
