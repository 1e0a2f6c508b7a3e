// Another machine, reached through ssh, and the ft process on it (app/node). The remote command is fixed:
// this program's path and "_node". All other data, beginning with the token, goes through ssh's stdin. ssh
// asks nothing (BatchMode); its permissions and known hosts are the user's ~/.ssh/config.
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
  std::string program;      // path of ft on the other machine
  std::string fingerprint;  // the other ft must report the same one
};

// Returns the options for this ft.
SshOptions ssh_options(int port);
// Returns the arguments of ssh, without its name. Throws UserError (config) if ft's path has characters that
// a remote shell could interpret.
std::vector<std::string> ssh_arguments(const std::string& host, const SshOptions&);
// Returns a text that identifies this build of ft. Machines with different fingerprints do not train
// together.
std::string own_fingerprint();

class SshNode {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void frame(const Frame&) = 0;
    virtual void noted(std::string_view) = 0;  // output of ssh and of the remote shell
    // Called at most once; `what` continues a line that begins with the host.
    virtual void failed(Exit, const std::string& what) = 0;
  };

  SshNode(std::string host, const SshOptions&, const SignalQueue&);

  const std::string& host() const { return host_; }
  bool running() const { return child_.pid > 0; }
  void send(const Frame&);
  void add_to(std::vector<pollfd>&) const;
  void advance(Events&);         // does not block
  void done() { done_ = true; }  // its end is no longer a failure
  // Gives the node 5 s to end by itself.
  void hurry();
  void hang_up();  // closes the connection: the node ends its ranks and itself

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
