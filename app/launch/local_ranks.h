// Ranks as child processes.
#pragma once
#include <optional>

#include "app/launch/rank_group.h"
#include "app/process/child.h"

namespace ft {

struct RankPlan {                      // for one machine
  std::vector<std::string> command;    // of ft: train --config ...
  int first = 0, count = 1, size = 1;  // ranks first ... first + count - 1 of size
  std::string master;                  // where rank 0 listens
  int port = 0;
  std::string token;                          // of the job
  std::optional<TerminalSize> terminal = {};  // on which rank 0 draws; empty: it writes lines
  std::string gpus;                           // "0,2": those that the ranks may use; empty: all
  std::vector<std::pair<std::string, std::string>> environment;
};

class LocalRanks final : public RankGroup {
 public:
  // listener: rank 0's; empty where it is not among these.
  LocalRanks(const RankPlan&, const Socket& listener, const SignalQueue&);

  void add_to(std::vector<pollfd>&) const override;
  void advance(RankEvents&) override;
  void signal(int which) override;
  bool running() const override;
  void resize(const TerminalSize&) override;

 private:
  int first_;
  std::vector<Child> children_;
  std::optional<TerminalSize> terminal_;
};

}  // namespace ft
