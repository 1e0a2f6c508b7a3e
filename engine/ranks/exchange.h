// One round of messages between all ranks: every rank sends to and receives from every other, concurrently
// and in no fixed order, so that no rank waits for a full buffer. Each message carries its collective and the
// collective's number, so a rank at another place in the program is detected.
#pragma once
#include <poll.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/ranks/mesh.h"
#include "engine/ranks/watch.h"

namespace ft {

struct Parcel {                     // between this rank and one other
  bool sends = true, hears = true;  // an empty message is one too
  std::span<const std::byte> out;
  std::span<std::byte> in;
};

// The collectives of one group of ranks, in their order. Groups of another axis have their own, so they need
// not take turns with it.
struct Series {
  std::string group = {};    // for messages; empty: all ranks
  std::uint32_t number = 0;  // of the last
};

class Exchange {
 public:
  // seconds: how long the others may be silent.
  Exchange(Mesh mesh, double seconds);

  int rank() const { return mesh_.rank; }
  int size() const { return mesh_.size(); }
  // The place in the program, for the message when a rank is lost.
  void at_step(std::int64_t step) { watch_.at_step(step); }
  void enter(std::string_view what) { watch_.enter(what); }
  // parcels: by rank, one's own is ignored. UserError(Exit::peer_lost) when a rank is gone, (Exit::hang) when
  // it is silent, (Exit::mismatch) when it is elsewhere in the program; all ranks end with the same words,
  // which name it, its host, the step, the collective and what that moves (watch.h).
  // Messages of send_receive have no number: between two ranks they keep their order.
  void run(Collective, std::span<const Parcel> parcels, Series&);
  // The next collective is one that something else carries (GPUs): it counts, and messages name it. Returns
  // its number among all that this rank has begun.
  std::uint32_t note(Collective, const std::string& group = {});
  Watch& watch() { return watch_; }
  std::int64_t sent() const { return sent_; }  // bytes of payload, so far
  // From another thread: a run() that waits for somebody ends with an exception.
  void shut() { watch_.abandon(); }

 private:
  struct Header {
    Collective what{};
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;
  };
  struct Line {  // state of the messages to and from one rank
    Header out, in;
    std::size_t sent = 0, heard = 0;  // bytes, headers included
    bool sends = false, hears = false;
    std::int64_t in_flight = 0;  // bytes that were not acknowledged at `since`
    Clock::time_point since;

    bool sent_all() const { return !sends || sent == sizeof(Header) + out.bytes; }
    bool heard_all() const { return !hears || heard == sizeof(Header) + in.bytes; }
  };

  bool send(std::size_t peer, const Parcel&);  // whether anything moved
  bool hear(std::size_t peer, const Parcel&);
  void check(std::size_t peer, const Parcel&);
  void wait(Clock::time_point deadline);
  void look_for_cuts();
  [[noreturn]] void lost(std::size_t peer, int problem);
  [[noreturn]] void silent();

  Mesh mesh_;
  double seconds_;
  std::vector<Line> lines_;
  Header now_;
  std::uint32_t begun_ = 0;  // collectives, of all groups
  std::int64_t sent_ = 0;
  std::vector<pollfd> fds_;  // by rank, then the watch's
  Watch watch_;              // uses mesh_
};

}  // namespace ft
