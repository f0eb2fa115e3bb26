# Writes the installed form of the header FROM to TO: our includes become <millrace/folder/name.h>.
file(READ ${FROM} text)
string(REGEX REPLACE "#include \"(([a-z_]+/)+[a-z_]+\\.h)\"" "#include <millrace/\\1>" text "${text}")
file(WRITE ${TO} "${text}")
