#include "app/launch/hostfile.h"

#include <gtest/gtest.h>

#include "app/launch/frames.h"
#include "app/launch/remote_ranks.h"

namespace ft {
namespace {

std::string shown(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& h : hosts) {
    text += text.empty() ? "" : " ";
    text += h.name + ":";
    for (const int slot : h.slots) text += std::to_string(slot);
  }
  return text;
}

std::string parsed(const std::string& text) {
  try {
    return shown(parse_hostfile(text, "hosts"));
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
}

TEST(Hostfile, DeepSpeedsAndOpenMpis) {
  EXPECT_EQ(parsed("worker-1 slots=2\nworker-2 slots=4\n"), "worker-1:01 worker-2:0123");
  EXPECT_EQ(parsed("# all\n\n  a.b.c\tslots=1   # one\r\n10.1.2.3 slots=2"), "a.b.c:0 10.1.2.3:01");
  EXPECT_EQ(parsed("n1\nn2\nn1\n"), "n1:01 n2:0");
  EXPECT_EQ(parsed("n_1 slots=2 max_slots=4\nfe80::1 max-slots=3"), "n_1:01 fe80::1:0");
}

TEST(Hostfile, Mistakes) {
  EXPECT_EQ(parsed("n1 slots=2\nn1 slots=2"), "hosts:2: n1 is listed twice; list it once, with slots=");
  EXPECT_EQ(parsed("n1 slots=2\nn1"), "hosts:2: n1 is listed twice; list it once, with slots=");
  EXPECT_EQ(parsed(""), "hosts: has no hosts; a line is: HOST slots=NUMBER");
  EXPECT_EQ(parsed("n1 slots=0"), "hosts:1: slots=0: a whole number from 1 to 1024");
  EXPECT_EQ(parsed("n1 slots=-1"), "hosts:1: slots=-1: a whole number from 1 to 1024");
  EXPECT_EQ(parsed("n1 slots=2147483648"), "hosts:1: slots=2147483648: a whole number from 1 to 1024");
  EXPECT_EQ(parsed("n1 slots=4 max_slots=2"), "hosts:1: slots is larger than max_slots");
  EXPECT_EQ(parsed("n1 gpus=4"), "hosts:1: \"gpus=4\" is not understood; a line is: HOST slots=NUMBER");
}

// Names that ssh, a shell or a terminal could interpret as something else are not accepted as hosts.
TEST(Hostfile, NothingIsInjected) {
  const std::vector<std::string> names = {"-oProxyCommand=touch${IFS}pwned",
                                          "-F/tmp/x",
                                          "--",
                                          "host;id",
                                          "host|id",
                                          "host&id",
                                          "$(id)",
                                          "`id`",
                                          "${HOME}",
                                          "host>x",
                                          "'host'",
                                          "\"host\"",
                                          "ho\\st",
                                          "host\x1b[2J",
                                          "host%n",
                                          "user@host",
                                          "host:22",
                                          "h\xc3\xb6st",
                                          "\xe2\x80\xaehost",
                                          "*",
                                          "?",
                                          "~",
                                          "!x",
                                          ".host",
                                          "host.",
                                          "-",
                                          "host/..",
                                          "host,other",
                                          "host=1",
                                          std::string("ho\0st", 5),
                                          std::string(254, 'a'),
                                          std::string(65536, 'a'),
                                          ":",
                                          "::g"};
  for (const std::string& name : names) {
    EXPECT_FALSE(is_host(name)) << name.substr(0, 80);
    const std::string said = parsed("good slots=1\n" + name + " slots=1\n");
    EXPECT_TRUE(said.starts_with("hosts:2: \"")) << said;
    for (const char c : said) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 127)) << said;
  }
  for (const char* name :
       {"a", "node1", "node-1.cluster.example", "10.0.0.1", "::1", "fe80::1:2", "1a", "my_node"})
    EXPECT_TRUE(is_host(name)) << name;
}

std::string chosen(const std::string& include, const std::string& exclude) {
  try {
    return shown(
        choose_hosts(parse_hostfile("n1 slots=4\nn2 slots=2\n::1 slots=2\n", "hosts"), include, exclude));
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Hostfile, IncludeAndExcludeAreDeepSpeeds) {
  EXPECT_EQ(chosen("", ""), "n1:0123 n2:01 ::1:01");
  EXPECT_EQ(chosen("n2", ""), "n2:01");
  EXPECT_EQ(chosen("n2@n1:3,0", ""), "n1:03 n2:01");
  EXPECT_EQ(chosen("n1:0@n1:2", ""), "n1:02");
  EXPECT_EQ(chosen("::1@::1:1", ""), "::1:01");
  EXPECT_EQ(chosen("", "n1:0,1@n2"), "n1:23 ::1:01");
  EXPECT_EQ(chosen("", "n1@n2@::1"), "--exclude: no ranks are left");
  EXPECT_EQ(chosen("n1", "n2"), "--include and --exclude: give only one of them");
  EXPECT_EQ(chosen("n3", ""), "--include: there is no host n3 in the hostfile");
  EXPECT_EQ(chosen("n2:2", ""), "--include: n2 has slots 0 to 1 and no 2");
  EXPECT_EQ(chosen("n2:x", ""), "--include: n2 has slots 0 to 1 and no x");
  EXPECT_EQ(chosen("n2:", ""), "--include: which slots of n2? n2:0,1");
}

TEST(Ssh, AProgramThatAShellWouldReadOtherwiseIsRefused) {
  for (const char* path : {"/opt/my ft/ft", "/opt/$x/ft", "/a;b", "ft", "", "/a'b"})
    EXPECT_THROW(ssh_arguments("n1", {.port = 0, .program = path, .fingerprint = {}}), UserError) << path;
  EXPECT_EQ(ssh_arguments("n1", {.port = 0, .program = "/opt/ft-1.0/ft", .fingerprint = {}}).back(),
            "/opt/ft-1.0/ft _node");
}

TEST(Frames, AreReassembledFromAnyPieces) {
  const std::string text = "Last login: today\n" + std::string(kNodeBegins) +
                           encode({FrameKind::said, 3, std::string("a\0b", 3)}) +
                           encode({FrameKind::ended, 3, "9"});
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    FrameReader r;
    std::string before, seen;
    bool begun = false;
    for (const auto& part : {text.substr(0, cut), text.substr(cut)}) {
      r.add(part);
      begun = begun || r.begun(before);
      while (begun)
        if (const auto f = r.next())
          seen += std::to_string(static_cast<int>(f->kind)) + ":" + std::to_string(f->number) + ":" +
                  f->bytes + " ";
        else
          break;
    }
    EXPECT_EQ(before, "Last login: today\n");
    EXPECT_EQ(seen, std::string("8:3:a\0b 10:3:9 ", 15));
  }
}

TEST(Frames, NonsenseIsRefused) {
  for (const std::string& text : {std::string(12, '\xff'), std::string(12, '\0')}) {
    FrameReader r;
    r.add(text);
    EXPECT_THROW(r.next(), UserError);
  }
}

}  // namespace
}  // namespace ft
