#include "app/launch/remote_ranks.h"

#include <charconv>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"

namespace ft {

RemoteRanks::RemoteRanks(std::string host, const SshOptions& options, const SignalQueue& signals)
    : node_(std::move(host), options, signals) {}

void RemoteRanks::start(const RankPlan& plan, bool listen) {
  first_ = plan.first;
  count_ = plan.count;
  Json environment = Json::array();
  for (const auto& [name, value] : plan.environment)
    environment.push_back({{"name", name}, {"value", value}});
  const Json j = {{"folder", std::filesystem::current_path().string()},
                  {"command", plan.command},
                  {"environment", environment},
                  {"first", plan.first},
                  {"count", plan.count},
                  {"size", plan.size},
                  {"master", plan.master},
                  {"port", plan.port},
                  {"listen", listen},
                  {"gpus", plan.gpus},
                  {"token", plan.token}};
  node_.send({FrameKind::start, 0, json_text(j, -1)});
}

void RemoteRanks::signal(int which) {
  node_.send({FrameKind::signal, which, {}});
  if (which == SIGKILL) node_.hurry();
}

void RemoteRanks::frame(const Frame& f) {
  const bool ours = f.number >= first_ && f.number < first_ + count_;
  if (f.kind == FrameKind::listening) to_->listening(f.number);
  if (f.kind == FrameKind::said && ours) to_->said(f.number, f.bytes);
  if (f.kind == FrameKind::answered && ours) to_->answered(f.bytes);
  if (f.kind != FrameKind::ended || !ours) return;
  int status = 0;
  std::from_chars(f.bytes.data(), f.bytes.data() + f.bytes.size(), status);
  if (++ended_ == count_) node_.done();
  to_->ended(f.number, status);
}

void RemoteRanks::advance(RankEvents& to) {
  to_ = &to;
  node_.advance(*this);
}

}  // namespace ft
