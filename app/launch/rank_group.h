// Some ranks of a run, on this machine or on another one, as ft launch sees them.
#pragma once
#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "app/process/terminal.h"
#include "engine/core/error.h"

namespace ft {

// What a group tells.
class RankEvents {
 public:
  virtual ~RankEvents() = default;
  virtual void said(int rank, std::string_view text) = 0;
  virtual void answered(std::string_view text) = 0;  // rank 0, on stdout
  virtual void ended(int rank, int status) = 0;      // as waitpid gives it
  virtual void listening(int) {}                     // rank 0, at this port
  // An event of the machine, not of a rank.
  virtual void noted(const std::string&, std::string_view) {}
  virtual void lost(const std::string&, Exit, const std::string&) {}
};

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual void add_to(std::vector<pollfd>&) const = 0;  // what to wait for
  virtual void advance(RankEvents&) = 0;                // tells what has happened; does not block
  virtual void signal(int which) = 0;                   // to all of its ranks
  virtual bool running() const = 0;
  virtual void resize(const TerminalSize&) {}  // the terminal on which rank 0 draws
};

}  // namespace ft
