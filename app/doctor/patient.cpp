#include "app/doctor/patient.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace ft {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json reached_json(const std::vector<Reached>& all) {
  Json list = Json::array();
  for (const Reached& r : all)
    list.push_back({{"host", r.host}, {"milliseconds", r.milliseconds}, {"problem", printable(r.problem)}});
  return list;
}

std::vector<Reached> reached_of(const std::vector<JsonObject>& list) {
  std::vector<Reached> all;
  for (const JsonObject& j : list)
    all.push_back({j.text("host"), j.number("milliseconds"), printable(j.text("problem"))});
  return all;
}

JsonObject object_of(const Frame& f) { return JsonObject::parse(f.bytes, {.file = "a machine's answer"}); }

}  // namespace

Patient::Patient(const std::string& host) { result_.host = host; }

Patient::Patient(std::unique_ptr<SshNode> node) : node_(std::move(node)) { result_.host = node_->host(); }

void Patient::look(const std::vector<std::string>& hosts, const Folders& folders) {
  if (!node_) {
    here_.emplace(host(), hosts, folders);
    result_.findings = here_->findings();
    port_ = here_->port();
    answered_ = true;
    return;
  }
  asked_at_ = seconds_now();
  const Json j = {{"folder", std::filesystem::current_path().string()},
                  {"output", folders.output},
                  {"offload", folders.offload},
                  {"host", host()},
                  {"hosts", hosts}};
  node_->send({FrameKind::look, 0, json_text(j, -1)});
}

void Patient::reach(const std::vector<Address>& others) {
  if (failed_) return;
  if (!node_) {
    result_.reached = here_->reach(others);
    return;
  }
  answered_ = false;
  Json list = Json::array();
  for (const Address& a : others) list.push_back({{"host", a.host}, {"port", a.port}});
  node_->send({FrameKind::reach, 0, json_text({{"others", list}}, -1)});
}

void Patient::frame(const Frame& f) {
  const JsonObject j = object_of(f);
  if (f.kind == FrameKind::found) {
    for (const Finding& one : findings_of(j.objects("findings"))) result_.findings.push_back(one);
    port_ = static_cast<int>(j.integer("port", 0, 65535));
    // The clock is correct to within the time that the answer took.
    const double now = seconds_now(), theirs = j.number("time");
    const double off = theirs < asked_at_ ? asked_at_ - theirs : theirs > now ? theirs - now : 0;
    if (off > 5)
      result_.findings.push_back(
          {Health::advice, "clock", str("differs by ", std::round(off), " s from this machine's"),
           "ft does not need equal clocks, but logs and files are easier to compare", Exit::done});
  } else if (f.kind == FrameKind::reached) {
    result_.reached = reached_of(j.objects("reached"));
    node_->done();  // the node still listens, for the other machines
  } else {
    return;
  }
  answered_ = true;
}

void Patient::failed(Exit exit, const std::string& what) {
  failed_ = true;
  const std::size_t end = words_.find_last_not_of(" \r\n");
  const std::string said = end == std::string::npos ? "" : ": " + printable(words_.substr(0, end + 1), 300);
  result_.findings.push_back({Health::bad, "ssh", what.substr(0, what.find('\n')) + said,
                              exit == Exit::mismatch ? "copy this ft to the same path there"
                                                     : str("try: ssh -o BatchMode=yes ", host(), " true"),
                              exit});
}

void Patient::advance() {
  if (node_) node_->advance(*this);
}

Frame Nurse::answer(const Frame& f) {
  const JsonObject j = object_of(f);
  if (f.kind == FrameKind::look) {
    const std::string folder = j.text("folder"), host = j.text("host");
    Json findings = Json::array();
    if (::chdir(folder.c_str()) != 0) {
      findings = to_json({{Health::bad, "folder", str(folder, ": ", std::strerror(errno)),
                           "every machine needs the same folders; use a shared file system", Exit::config}});
    }
    examination_.emplace(host, j.texts("hosts"), Folders{j.text("output"), j.texts("offload")});
    for (const Json& one : to_json(examination_->findings())) findings.push_back(one);
    const Json out = {{"findings", findings}, {"port", examination_->port()}, {"time", seconds_now()}};
    return {FrameKind::found, 0, json_text(out, -1)};
  }
  require(examination_.has_value(), "look comes before reach");
  std::vector<Address> others;
  for (const JsonObject& o : j.objects("others"))
    others.push_back({o.text("host"), static_cast<int>(o.integer("port", 0, 65535))});
  return {FrameKind::reached, 0, json_text({{"reached", reached_json(examination_->reach(others))}}, -1)};
}

}  // namespace ft
