// A machine that ft doctor examines: this machine, or one through ssh.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/doctor/examination.h"
#include "app/doctor/report.h"
#include "app/launch/ssh_node.h"

namespace ft {

class Patient final : private SshNode::Events {
 public:
  explicit Patient(const std::string& host);  // this machine
  explicit Patient(std::unique_ptr<SshNode> node);

  const std::string& host() const { return result_.host; }
  // Requests: this machine answers at once, another one later; answered() tells.
  void look(const std::vector<std::string>& hosts, const Folders& folders);
  void reach(const std::vector<Address>& others);
  bool answered() const { return answered_ || failed_; }
  int port() const { return port_; }
  const Examined& result() const { return result_; }

  void add_to(std::vector<pollfd>& fds) const {
    if (node_) node_->add_to(fds);
  }
  void advance();

 private:
  void frame(const Frame&) override;
  void noted(std::string_view text) override { words_ = (words_ + std::string(text)).substr(0, 300); }
  void failed(Exit, const std::string& what) override;

  std::unique_ptr<SshNode> node_;  // null: this machine
  std::optional<Examination> here_;
  Examined result_;
  std::string words_;  // the last output of ssh
  double asked_at_ = 0;
  int port_ = 0;
  bool answered_ = false, failed_ = false;
};

// The node's side of Patient: answers `look` and `reach` on the examined machine.
class Nurse {
 public:
  Frame answer(const Frame&);

 private:
  std::optional<Examination> examination_;
};

}  // namespace ft
