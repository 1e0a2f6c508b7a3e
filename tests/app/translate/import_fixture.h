// A test of ft import: it imports texts and command lines, and looks into the answer.
#pragma once
#include <nlohmann/json.hpp>

#include "app/config/config.h"
#include "engine/files/json.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"

namespace ft::test {

using Words = std::vector<std::string>;

class Import : public testing::Test {
 protected:
  // Imports a text as a file of this name.
  Json imported(const std::string& text, const Words& more = {}) {
    Words all{"import", "--json", folder_.write("f.yml", text)};
    all.insert(all.end(), more.begin(), more.end());
    return answer(all);
  }
  Json command(const Words& words, const Words& more = {}) {
    Words all{"import", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    all.emplace_back("--");
    all.insert(all.end(), words.begin(), words.end());
    return answer(all);
  }
  Json answer(const Words& words) {
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    const Json made = o.code == 0 ? Json::parse(o.out) : Json();
    if (made.is_object()) {
      EXPECT_NO_THROW(parse_config(json_text(made["config"]), "run.json", "", {}));
    }
    return made;
  }
  // Returns the message about a file that is refused.
  std::string refusal(const std::string& text, const Words& more = {}) {
    Words all{"import", folder_.write("f.yml", text)};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 2) << o.out;
    EXPECT_EQ(o.out, "");
    return o.err;
  }
  void expect_refusal(const std::string& text, const std::string& part, const Words& more = {}) {
    const std::string message = refusal(text, more);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  static Json row(const Json& made, const std::string& key) {
    for (const Json& r : made["keys"])
      if (r["key"] == key) return r;
    ADD_FAILURE() << "no row of " << key;
    return Json::object();
  }
  static std::string verdict(const Json& made, const std::string& key) {
    return row(made, key).value("verdict", "");
  }
  static Words missing(const Json& made) {
    Words all;
    for (const Json& r : made["keys"])
      if (r["verdict"] == "not_there") all.push_back(r["key"]);
    return all;
  }
  static Json at(const Json& made, const std::string& path) {
    const Json* v = &made["config"];
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t dot = std::min(path.find('.', begin), path.size());
      if (!v->is_object() || !v->contains(path.substr(begin, dot - begin))) return "(not set)";
      v = &(*v)[path.substr(begin, dot - begin)];
      begin = dot + 1;
    }
    return *v;
  }

  test::TempFolder folder_;
};

}  // namespace ft::test
