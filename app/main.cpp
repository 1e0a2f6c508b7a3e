// The command line starts here.
int main() { return 2; }
