// Runs ranks on another machine.
#pragma once
#include "app/launch/local_ranks.h"
#include "app/launch/ssh_node.h"

namespace ft {

class RemoteRanks final : public RankGroup, private SshNode::Events {
 public:
  // Connects to the machine; start() sends it the plan.
  RemoteRanks(std::string host, const SshOptions&, const SignalQueue&);

  // `listen`: rank 0 is among these ranks. Its port is reported as an event.
  void start(const RankPlan&, bool listen);
  void add_to(std::vector<pollfd>& fds) const override { node_.add_to(fds); }
  void advance(RankEvents&) override;
  void signal(int which) override;
  bool running() const override { return node_.running(); }

 private:
  void frame(const Frame&) override;
  void noted(std::string_view text) override { to_->noted(node_.host(), text); }
  void failed(Exit exit, const std::string& what) override { to_->lost(node_.host(), exit, what); }

  SshNode node_;
  RankEvents* to_ = nullptr;  // set during advance()
  int first_ = 0, count_ = 0, ended_ = 0;
};

}  // namespace ft
