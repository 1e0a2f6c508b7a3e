// A round of messages between all ranks. Every rank sends to and receives from every other, concurrently and
// in no fixed order, so that no rank waits for a full buffer. Each message names its collective and the
// collective's number, so that a rank at another place in the program is detected.
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

struct Parcel {                     // messages between this rank and one other
  bool sends = true, hears = true;  // also true for an empty message
  std::span<const std::byte> out;
  std::span<std::byte> in;
};

// The collectives of one group of ranks, in their order. Each group has its own series, so that groups on
// different axes need not take turns.
struct Series {
  std::string group = {};    // for messages; empty: all ranks
  std::uint32_t number = 0;  // of the last collective
};

class Exchange {
 public:
  // seconds: how long the other ranks may be silent.
  Exchange(Mesh mesh, double seconds);

  int rank() const { return mesh_.rank; }
  int size() const { return mesh_.size(); }
  Encryption encryption() const { return mesh_.encryption; }
  // The place in the program, for the message when a rank is lost.
  void at_step(std::int64_t step) { watch_.at_step(step); }
  void enter(std::string_view what) { watch_.enter(what); }
  // parcels: by rank; the one of the own rank is ignored. Throws UserError (peer_lost) if a rank is gone,
  // (hang) if it is silent, (mismatch) if it is at another place in the program. All ranks end with the same
  // message, which names that rank, its host, the step, the collective and its data (watch.h).
  // Messages of send_receive have no number: between two ranks they keep their order.
  void run(Collective, std::span<const Parcel> parcels, Series&);
  // Notes that the next collective uses another transport (GPUs), so that it is counted and messages name it.
  // Returns its number among all collectives that this rank has begun.
  std::uint32_t note(Collective, const std::string& group = {});
  Watch& watch() { return watch_; }
  std::int64_t sent() const { return sent_; }  // bytes of payload so far
  // Call from another thread: makes a waiting run() throw.
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

  bool send(std::size_t peer, const Parcel&);  // returns true if anything was sent
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
  std::vector<pollfd> fds_;  // one for each rank, then the watch's
  Watch watch_;              // uses mesh_
};

}  // namespace ft
