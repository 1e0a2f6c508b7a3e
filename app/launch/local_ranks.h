// Runs ranks as child processes.
#pragma once
#include <optional>

#include "app/launch/rank_group.h"
#include "app/process/child.h"

namespace ft {

struct RankPlan {                      // the ranks of one machine
  std::vector<std::string> command;    // arguments of ft: train --config ...
  int first = 0, count = 1, size = 1;  // ranks first ... first + count - 1 of size
  std::string master;                  // address of rank 0
  int port = 0;
  std::string token;                          // the job's token
  std::optional<TerminalSize> terminal = {};  // where rank 0 draws; empty: it writes lines
  std::string gpus;                           // "0,2": GPUs for the ranks; empty: all
  std::vector<std::pair<std::string, std::string>> environment;
};

class LocalRanks final : public RankGroup {
 public:
  // `listener`: rank 0's socket; empty if rank 0 is not among these ranks.
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
