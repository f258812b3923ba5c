from __future__ import annotations
import pytest
from faults import *
from faults import Point
from pathlib import Path

MUTATING = "openat,write,pwrite64,rename,link,unlink,fsync,ftruncate,mkdir,chmod,flock,fcntl,vfork,exit_group"

def _append(root, name, text):
    with open(root/".team/inbox"/f"{name}.jsonl","a") as f: f.write(text+"\n")

def p_nothing(team, root): team.add("One")
def p_held(team, root):
    team.add("One"); team.claim(1, by="alice")
def p_two(team, root):
    team.add("One"); team.add("Two")
def p_mail(team, root):
    team.send("alice","first"); team.send("alice","second")
    _append(root,"alice",'{"content": "third"}')
def p_drop(team, root):
    team.add("One"); (root/".tasks/fix-login.md").write_text("Fix the login page\n\nIt is broken.\n")
def p_append(team, root):
    team.send("alice","first"); _append(root,"alice",'{"content": "third"}'); _append(root,"alice",'{"content": "third"}')
def p_edit(team, root):
    team.add("One", "text"); p=root/".tasks/1-one.md"; p.write_text(p.read_text()+"more\n")

OPS = {
 "add": (p_nothing, ("task","add","Second")),
 "claim": (p_nothing, ("task","claim","1","--as","alice")),
 "release": (p_held, ("task","release","1","--as","alice")),
 "done": (p_held, ("task","done","1","--as","alice","-m","it works")),
 "note": (p_nothing, ("task","note","1","hm")),
 "block": (p_two, ("task","block","1","--by","2")),
 "cancel": (p_nothing, ("task","cancel","1")),
 "send": (p_mail, ("send","alice","fourth")),
 "broadcast": (p_mail, ("broadcast","fifth")),
 "take": (p_mail, ("inbox","alice","--take","--json")),
 "member": (p_held, ("member","add","carol","--role","qa")),
 "remove": (p_held, ("member","remove","alice")),
 "drop": (p_drop, ("task","list")),
 "append": (p_append, ("inbox","alice")),
 "edit": (p_edit, ("task","list")),
}

@pytest.mark.parametrize("name", OPS)
def test_kill(name, tmp_path):
    prepare, words = OPS[name]
    s = scene(tmp_path, words, prepare)
    t0=time.time()
    ps = points(s.fresh(), words, MUTATING)
    bad=[]
    for n, point in enumerate(ps):
        root = s.fresh()
        found = call_injected(root, words, point, "signal=SIGKILL")
        try:
            assert found.code in (-9,0), (point, found)
            s.check(root, found, bool(n%2))
        except AssertionError as e:
            bad.append((str(point), str(e)[:1500]))
    print(len(ps), time.time()-t0)
    assert not bad, "\n\n".join(f"{a}: {b}" for a,b in bad)
