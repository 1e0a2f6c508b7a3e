// The page docs/which_gpu.md, made by ft plan from the shapes of models.
#pragma once
#include <string>
#include <vector>

namespace ft {

// Returns the ids of the models on the page, in order.
std::vector<std::string> models_of_page();

// Returns the names of the methods on the page.
std::vector<std::string> methods_of_page();

// Returns the part of the page above the rows.
std::string head_of_page();

// Returns the beginning of a row: model and method.
std::string row_name(const std::string& id, const std::string& method);

// Plans a row, and returns it with its newline. Takes up to 8 plans.
std::string planned_row(const std::string& id, const std::string& method);

}  // namespace ft
