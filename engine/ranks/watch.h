// Notices lost ranks, whatever this rank is doing. Beside the connections for tensors, rank 0 has a second
// connection to every other rank. At each end a thread sends a heartbeat twice a second: the rank's place in
// the program (whereabouts.h).
//
// A dead rank's connections close, so its loss is known at once. If a cable is cut, in one direction or both,
// or a machine is gone, heartbeats are no longer acknowledged: the loss is known after 13 s (kCut). A stopped
// or slow process still acknowledges, so it is no reason to end the run; a rank that has waited for it longer
// than distributed.timeout_s reports it.
//
// Long before that, rank 0 reports which rank keeps the others waiting (delay.h), and when the delay is over.
//
// Any rank may accuse another. Rank 0 judges, so that all ranks end with the same exit code and message. If
// rank 0 itself is lost, each rank reports it.
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
  // Uses the mesh's control connections during its lifetime.
  explicit Watch(Mesh&);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  // Tells the other ranks that this rank is done, or, during an exception, that it failed.
  ~Watch();

  int fd() const { return concluded_.fd(); }  // readable when there is a verdict
  [[noreturn]] void end();                    // throws the verdict; call only when there is one
  // Accuses `rank` of keeping this rank from continuing. Throws rank 0's verdict as a UserError. `what`
  // continues a sentence that begins with the rank's name: "has not answered for 60 s".
  [[noreturn]] void accuse(int rank, Exit, const std::string& what);
  // Accuses an unknown rank: rank 0 names the rank that has begun the fewest collectives, or all if all have
  // begun the same number. Callable from any thread. Returns when there is a verdict, which the rank's own
  // thread must throw.
  void suspect_last(Exit exit, const std::string& what) { suspect(kWhoeverIsLast, exit, what); }
  bool over() const;  // returns true if there is a verdict

  // Updates of this rank's place in the program.
  void at_step(std::int64_t step);
  void enter(std::string_view what);  // `what`: name of the data that the next collectives send
  void begin(Collective, std::uint32_t number, std::string_view group = {});
  void waits_for(int rank);
  void leave(std::uint32_t number);  // ignored if another collective has begun
  // Makes fd() readable and end() throw without accusing a rank, when this rank gives up for its own reasons.
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
  struct Line {                  // a connection to one rank
    Channel* channel = nullptr;  // null: none, or it is lost
    std::string name, unsent;
    std::int64_t acknowledged = 0;              // bytes
    Clock::time_point moved_at = Clock::now();  // when bytes were last acknowledged or none was in flight
    Message in;
    std::size_t heard = 0;  // received bytes of `in`
    int unanswered = 0;     // heartbeats since the last message from the rank
    Whereabouts place;      // that rank's place in its last message
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
  int exceptions_;  // number in flight at construction
  Socket concluded_, stop_;
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Line> lines_;  // by rank
  Whereabouts place_;
  Delay delay_;
  int late_ = -1;  // the rank of the last reported delay
  std::optional<UserError> verdict_;
  bool abandoned_ = false;  // the verdict is only about this rank
  Clock::time_point concluded_at_, said_at_;
  bool said_ = false;  // the rank itself prints the verdict, on its way out
  std::thread thread_;
};

}  // namespace ft
