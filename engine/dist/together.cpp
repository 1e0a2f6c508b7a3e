#include "engine/dist/together.h"

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
  double own = thrown ? 1 : 0;
  std::vector<double> failed(static_cast<std::size_t>(comm.size()));
  comm.all_gather({reinterpret_cast<std::byte*>(failed.data()), DType::f64, {comm.size()}},
                  {reinterpret_cast<std::byte*>(&own), DType::f64, {1}});
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
