// Another machine, reached through ssh, and the ft process on it (app/node). The remote command is fixed:
// this program's path and "_node". Everything else, beginning with the token, goes over ssh's stdin as data.
// ssh asks nothing (BatchMode); what it may do and whom it trusts is configured in the user's ~/.ssh/config.
#pragma once
#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "app/launch/frames.h"
#include "app/process/child.h"
#include "engine/core/error.h"

namespace ft {

struct SshOptions {
  int port = 0;             // 0: as ssh is configured
  std::string program;      // ft's path there
  std::string fingerprint;  // what it must tell of itself
};

// For this ft.
SshOptions ssh_options(int port);
// The words of ssh, without its own name. UserError(Exit::config) when the path of ft has characters that a
// shell there could take for something else.
std::vector<std::string> ssh_arguments(const std::string& host, const SshOptions&);
// Which ft this is, for a node to tell: two that are not the same do not train together.
std::string own_fingerprint();

class SshNode {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void frame(const Frame&) = 0;
    virtual void noted(std::string_view) = 0;                // what ssh and the shell there say
    virtual void failed(Exit, const std::string& what) = 0;  // once; the text continues after the host's name
  };

  SshNode(std::string host, const SshOptions&, const SignalQueue&);

  const std::string& host() const { return host_; }
  bool running() const { return child_.pid > 0; }
  void send(const Frame&);
  void add_to(std::vector<pollfd>&) const;
  void advance(Events&);         // does not block
  void done() { done_ = true; }  // its end is no failure any more
  // It has 5 s to end by itself.
  void hurry();
  void hang_up();  // nothing more is sent: the node ends its ranks and itself

 private:
  void flush();
  void hear(Events&);
  void hear_errors(Events&);
  void take(const Frame&, Events&);
  void reap(Events&);
  void fail(Events&, Exit, const std::string& what);

  std::string host_, fingerprint_;
  Child child_;
  FrameReader frames_;
  std::string unsent_;
  bool begun_ = false, greeted_ = false, failed_ = false, done_ = false;
  Clock::time_point alive_at_, start_by_, end_by_;
};

}  // namespace ft
