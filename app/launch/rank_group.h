// A group of ranks on one machine, as ft launch sees it.
#pragma once
#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "app/process/terminal.h"
#include "engine/core/error.h"

namespace ft {

// Receives a group's events.
class RankEvents {
 public:
  virtual ~RankEvents() = default;
  virtual void said(int rank, std::string_view text) = 0;
  virtual void answered(std::string_view text) = 0;  // rank 0's stdout
  virtual void ended(int rank, int status) = 0;      // status of waitpid
  virtual void listening(int) {}                     // rank 0's port
  // Events of a machine, not of a rank.
  virtual void noted(const std::string&, std::string_view) {}
  virtual void lost(const std::string&, Exit, const std::string&) {}
};

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual void add_to(std::vector<pollfd>&) const = 0;  // adds descriptors for poll
  virtual void advance(RankEvents&) = 0;                // reports new events; does not block
  virtual void signal(int which) = 0;                   // sends a signal to all ranks of the group
  virtual bool running() const = 0;
  virtual void resize(const TerminalSize&) {}  // size of the terminal on which rank 0 draws
};

}  // namespace ft
