#include "engine/dist/together.h"

#include <cstdint>
#include <exception>
#include <vector>

#include "engine/core/error.h"

namespace ft {

void together(Communicator& comm, const std::string& what, const std::function<void()>& part) {
  if (comm.size() == 1) return part();
  std::exception_ptr thrown;
  try {
    part();
  } catch (...) {
    thrown = std::current_exception();
  }
  std::vector<std::uint8_t> failed(static_cast<std::size_t>(comm.size()));
  failed[static_cast<std::size_t>(comm.rank())] = thrown ? 1 : 0;
  comm.all_gather_host(std::as_writable_bytes(std::span(failed)));
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
