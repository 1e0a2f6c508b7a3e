// Notices that a rank is lost, whatever this one is doing. Besides the connections that carry tensors, rank 0
// has a second one to every other rank, and at each end a thread sends a heartbeat twice a second: the rank's
// place in the program (whereabouts.h).
//
// A rank that died closes its connections: known at once. When a cable is cut, in one direction or both, or a
// machine is gone, heartbeats are no longer acknowledged: known after 13 s (kCut). A process that is stopped
// or slow still acknowledges, so it is no reason to end; a rank that has waited for it longer than
// distributed.timeout_s reports it.
//
// Long before that rank 0 says which rank keeps the others waiting (delay.h), and when that is over.
//
// Any rank may accuse; rank 0 judges, so that all ranks end with the same exit code and the same message. If
// rank 0 itself is lost, each rank says so.
#pragma once
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/error.h"
#include "engine/ranks/delay.h"
#include "engine/ranks/mesh.h"
#include "engine/ranks/whereabouts.h"

namespace ft {

class Watch {
 public:
  // Uses the mesh's control connections while it lives.
  explicit Watch(const Mesh&);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  // Tells the others that this rank has done its part, or, during an exception, that it failed.
  ~Watch();

  int fd() const { return concluded_.fd(); }  // can be read when there is a verdict
  [[noreturn]] void end();                    // throws the verdict; only once there is one
  // This rank cannot continue because of `rank`: throws rank 0's verdict as a UserError. `what` continues a
  // sentence that begins with the rank's name: "has not answered for 60 s".
  [[noreturn]] void accuse(int rank, Exit, const std::string& what);
  // The same when the culprit is unknown: rank 0 names the rank that has begun the fewest collectives, or all
  // if they are in the same one. Callable from any thread: returns when there is a verdict, which the rank's
  // own thread must throw.
  void suspect_last(Exit exit, const std::string& what) { suspect(kWhoeverIsLast, exit, what); }
  bool over() const;  // whether there is a verdict

  // Where this rank is.
  void at_step(std::int64_t step);
  void enter(std::string_view what);  // what the next collectives move
  void begin(Collective, std::uint32_t number, std::string_view group = {});
  void waits_for(int rank);
  void leave(std::uint32_t number);  // unless another has begun
  // This rank gives up for its own reasons: fd() becomes readable, end() throws, no rank is accused.
  void abandon();

 private:
  static constexpr int kWhoeverIsLast = -1;
  struct Message {  // copied from memory: all ranks run the same binary
    enum class Kind : std::uint32_t { heartbeat = 1, accusation, verdict, failed, done, deaf };
    Kind kind{};
    std::int32_t exit = 0, blame = 0;
    Whereabouts place;
    std::array<char, 600> text{};
  };
  struct Line {  // to one rank
    int fd = -1;
    std::string name, unsent;
    std::int64_t sent = 0, acknowledged = 0;    // bytes
    Clock::time_point moved_at = Clock::now();  // when more of them were acknowledged, or none was under way
    Message in;
    std::size_t heard = 0;  // bytes of it
    int unanswered = 0;     // heartbeats
    Whereabouts place;      // where that rank was when it was last heard
    Clock::time_point heard_at = Clock::now();
    bool done = false;
  };

  void suspect(int rank, Exit, const std::string& what);  // returns when there is a verdict
  void run();
  void hear(std::size_t rank);
  void take(std::size_t rank, const Message&);
  void lost(std::size_t rank, int problem);
  void beat();
  void look_for_cuts();
  void look_for_delays();
  void send(Line&, const Message&);
  void flush(Line&);
  void judge(int blame, Exit, const std::string& what, const Whereabouts&);
  int behind(int accused) const;
  int last() const;
  const Whereabouts& place_of(int rank) const;
  std::string state_of(int rank) const;
  void conclude(Exit, const std::string& text);
  void enforce();
  Clock::time_point next_look(Clock::time_point beat_at) const;

  const int rank_;
  GiveUp give_up_;
  Notice notice_;
  int exceptions_;  // in flight when this began
  Socket concluded_, stop_;
  mutable std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::vector<Line> lines_;  // by rank
  Whereabouts place_;
  Delay delay_;
  int late_ = -1;  // the rank of the delay that was said
  std::optional<UserError> verdict_;
  bool abandoned_ = false;  // the verdict is only about this rank
  Clock::time_point concluded_at_, said_at_;
  bool said_ = false;  // by the rank itself, on its way out
  std::thread thread_;
};

}  // namespace ft
