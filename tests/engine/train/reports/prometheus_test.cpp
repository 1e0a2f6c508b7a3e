// The text file for node_exporter, in Prometheus' exposition format.
#include "engine/train/reports/prometheus.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Prometheus, NewestNumbersWithHelpAndType) {
  const TestFolder folder;
  RunHeader header = sample_header();
  header.run_name = "a \"b\" \\";
  Prometheus report(folder.file("ft.prom"));
  report.begin(header);
  std::string text = text_of(folder.file("ft.prom"));
  EXPECT_TRUE(has(text, R"(ft_running{run="a \"b\" \\"} 1)")) << text;
  EXPECT_EQ(text.find("ft_loss"), std::string::npos) << "nothing is known yet";
  StepRow row = sample_step(4);
  row.grad_norm = NAN;
  report.step(row);
  report.evaluation(sample_evaluation(4, 0.5, true));
  report.end(sample_summary(4));
  text = text_of(folder.file("ft.prom"));
  EXPECT_TRUE(has(text, "# TYPE ft_loss gauge")) << text;
  EXPECT_TRUE(has(text, R"(ft_step{run="a \"b\" \\"} 4)"));
  EXPECT_TRUE(has(text, R"(ft_grad_norm{run="a \"b\" \\"} NaN)"));
  EXPECT_TRUE(has(text, R"(ft_eval_loss{run="a \"b\" \\"} 0.5)"));
  EXPECT_TRUE(has(text, R"(ft_running{run="a \"b\" \\"} 0)"));
  EXPECT_TRUE(has(text, R"(ft_memory_bytes{run="a \"b\" \\",category="scratch"} 6)"));
  EXPECT_TRUE(has(text, "# TYPE ft_input_tokens_total counter"));
}

}  // namespace
}  // namespace ft
