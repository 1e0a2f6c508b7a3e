// One round of messages between all ranks: everybody sends something to everybody and hears from everybody,
// at the same time and without an order, so that nobody waits for a full buffer. Each message says which
// collective it belongs to and which number that has; a rank that is elsewhere in the program is found out
// instead of being believed.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "engine/core/error.h"
#include "engine/dist/mesh.h"

namespace ft {

enum class Collective : std::uint32_t {
  all_gather = 1,
  reduce_scatter,
  all_reduce,
  broadcast,
  transfer,
  barrier,
  farewell
};

struct Parcel {                     // between this rank and one other
  bool sends = true, hears = true;  // an empty message is one too
  std::span<const std::byte> out;
  std::span<std::byte> in;
};

class Exchange {
 public:
  // seconds: how long the others may be silent.
  Exchange(Mesh mesh, double seconds);

  int rank() const { return mesh_.rank; }
  int size() const { return mesh_.size(); }
  // parcels: by rank, one's own is ignored. UserError(Exit::peer_lost) when a rank is gone, (Exit::hang) when
  // it is silent; both name it, its host and the collective, and are told to the other ranks.
  void run(Collective, std::span<const Parcel> parcels);
  std::int64_t sent() const { return sent_; }  // bytes of payload, so far

 private:
  struct Header {
    Collective what{};
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;  // farewell: the rank that is to blame
  };
  struct Line {  // the state of the parcel to and from one rank
    Header out, in;
    std::size_t sent = 0, heard = 0;  // bytes, headers included
    bool sends = false, hears = false;
  };

  bool send(std::size_t peer, const Parcel&);  // whether anything moved
  bool hear(std::size_t peer, const Parcel&);
  void check(std::size_t peer, const Parcel&) const;
  [[noreturn]] void lost(std::size_t peer);
  [[noreturn]] void silent();
  [[noreturn]] void fail(Exit, std::size_t blame, const std::string& what);
  std::string where() const;

  Mesh mesh_;
  double seconds_;
  std::vector<Line> lines_;
  Header now_;
  std::int64_t sent_ = 0;
};

}  // namespace ft
