#!/bin/sh
# Stands in for any built-in program: says what they say. A time that it didn't take would be refused.
if [ "$1" = --version ]; then
    echo "${0##*/} 0.1.0 (testcc 1.2)"
else
    sleep 0.012
    echo "seconds: 0.01"
    echo "verification: successful"
fi
